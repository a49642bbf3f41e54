"""Log files are read as they are found."""

import io
import json
import logging
import os
import stat
from pathlib import Path

import pytest

from autotune.errors import AutotuneError, RecordError
from autotune.record import (
    ApplyHistoryBest,
    LogReader,
    LogWriter,
    compact,
    load_from_buffer,
    load_from_file,
    pick_best,
)
from autotune.tuner.callback import log_to_file
from tests.record.records import TVM_ROW

ROOT = Path(__file__).parent.parent.parent


def test_garbage_is_passed_over_and_reported_once(tmp_path, caplog):
    log = tmp_path / "mixed.log"
    lines = ["# a comment", TVM_ROW, "garbage", "", "{}", TVM_ROW, "\x00\x01", "[]", TVM_ROW[:50]]
    log.write_bytes("\n".join(lines).encode() + b"\xff")
    with caplog.at_level(logging.WARNING, "autotvm"):
        assert len(list(load_from_file(log))) == 2
    (message,) = [record.getMessage() for record in caplog.records]
    assert message.startswith(f"log {log}: 5 of 7 records could not be read (line 3: not JSON")
    assert "line 5: unknown version None" in message
    assert "and 2 more" in message
    assert "autotune log compact" in message


def test_a_line_cut_short_is_told_from_garbage(tmp_path):
    reader = LogReader([TVM_ROW + "\n", TVM_ROW[:-20]], "torn.log", quiet=True)
    assert len(list(reader)) == 1
    assert [(p.line, p.torn) for p in reader.problems] == [(2, True)]
    assert "line 2: cut short, its writer was interrupted" in reader.report()


@pytest.mark.parametrize("newline", ["\n", ""])
@pytest.mark.parametrize(
    ("after", "said"),
    [
        (TVM_ROW, "more than one record in a line, the second from character {} on"),
        ("  " + TVM_ROW[:40], "more than one record in a line, the second from character {} on"),
        (" # a note", "text after the record, from character {} on"),
        ("]", "text after the record, from character {} on"),
    ],
)
def test_what_follows_a_record_in_its_line_is_not_taken_for_a_line_cut_short(newline, after, said):
    reader = LogReader([TVM_ROW + "\n", TVM_ROW + after + newline], "two.log", quiet=True)
    assert len(list(reader)) == 1
    where = len(TVM_ROW) + len(after) - len(after.lstrip()) + 1
    assert f"(line 2: {said.format(where)})" in reader.report()


def test_a_last_line_that_never_was_a_record_is_not_cut_short():
    for line in ("[]", "garbage", '{"version": 7}'):
        reader = LogReader([TVM_ROW + "\n", line], "odd.log", quiet=True)
        assert len(list(reader)) == 1
        assert not reader.problems[0].torn


def test_a_complete_log_gives_no_report(tmp_path, caplog):
    assert len(list(load_from_buffer(io.StringIO(TVM_ROW + "\n" + TVM_ROW)))) == 2
    assert not caplog.records


def test_a_missing_log_is_an_error_at_once(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"cannot read the log .*none.log.*tune first"):
        load_from_file(tmp_path / "none.log")
    with pytest.raises(RecordError):
        load_from_file(tmp_path)


def test_a_file_without_any_record_is_doubted(tmp_path, caplog):
    other = tmp_path / "readme.txt"
    other.write_text("not\na log\n")
    assert not list(load_from_file(other))
    assert "none of its 2 lines is a record" in caplog.text
    assert "is it a log?" in caplog.text


def test_a_folder_is_refused_before_anything_is_measured(tmp_path):
    with pytest.raises(RecordError, match="it is a folder; give a file in it"):
        LogWriter(tmp_path)


@pytest.mark.parametrize("moment", [1e308, 1e12, -1.0])
def test_a_time_of_no_calendar_is_not_known(moment):
    row = json.loads(TVM_ROW)
    row["result"][3] = moment
    [(_, result)] = load_from_buffer(io.StringIO(json.dumps(row)))
    assert result.ok
    assert result.timestamp == 0.0


@pytest.mark.parametrize(
    "use",
    [LogWriter, compact, ApplyHistoryBest, load_from_file, log_to_file],
    ids=lambda use: use.__name__,
)
def test_no_log_has_a_null_character_in_its_path(use):
    with pytest.raises(AutotuneError, match="path"):
        use("a\0b")


@pytest.fixture
def pipe(tmp_path):
    """A pipe that somebody reads, by its path."""
    path = tmp_path / "pipe"
    os.mkfifo(path)
    reader = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
    yield path, reader
    os.close(reader)


def test_no_log_takes_the_place_of_a_device_or_a_pipe(pipe, tmp_path):
    path, reader = pipe
    link = tmp_path / "link.log"
    link.symlink_to(path)
    for name in (path, link):
        with pytest.raises(RecordError, match="it is a device or a pipe and no file"):
            compact(name)
    log = tmp_path / "x.log"
    log.write_text(TVM_ROW + "\n")
    assert pick_best(log, path) == 1
    assert os.read(reader, 1 << 16).decode().startswith('{"input"')
    assert stat.S_ISFIFO(path.stat().st_mode)


def test_a_pipe_stays_open_between_rows_and_ends_with_its_writer(pipe):
    path, reader = pipe
    writer = LogWriter(path, fsync=True)
    for number in range(3):
        writer.write([f"row {number}\n"])
        assert os.read(reader, 1 << 16) == f"row {number}\n".encode()
        with pytest.raises(BlockingIOError):  # it has not ended
            os.read(reader, 1)
    del writer
    assert os.read(reader, 1) == b""


def test_records_of_lines_that_are_read_together_keep_their_numbers():
    lines = ["# begun\n", f"{TVM_ROW}\n", "no record\n", f"# race {TVM_ROW}\n", f"{TVM_ROW}\n"]
    for ahead in (1, 2, 1000):
        reader = LogReader(lines, "a.log", quiet=True, races=True, ahead=ahead)
        found = [(one.number, one.line) for one in reader.numbered()]
        assert found == [(number, lines[number - 1]) for number in (2, 4, 5)]
        assert [problem.line for problem in reader.problems] == [3]
