"""Whatever somebody names as a log is read in bounded time and memory."""

import os
import threading
from pathlib import Path

import pytest

from autotune.errors import RecordError
from autotune.record import bounded_lines, load_from_file, open_database
from autotune.record.reader import open_log
from tests.record.records import TVM_ROW


def test_a_pipe_that_nobody_writes_is_an_empty_log_and_not_waited_for(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    assert list(load_from_file(tmp_path / "pipe")) == []
    with open_database(tmp_path / "pipe") as database:
        assert list(database.lines()) == []


def test_a_pipe_that_somebody_writes_is_read_to_its_end(tmp_path):
    path = tmp_path / "pipe"
    os.mkfifo(path)
    reading, writing = os.open(path, os.O_RDONLY | os.O_NONBLOCK), os.open(path, os.O_WRONLY)
    late = threading.Timer(
        0.1, lambda: (os.write(writing, f"{TVM_ROW}\n".encode()), os.close(writing))
    )
    late.start()
    try:
        assert len(list(load_from_file(path))) == 1  # waits for the writer, as `cat` does
    finally:
        late.join()
        os.close(reading)


def test_a_device_without_an_end_is_refused(monkeypatch):
    monkeypatch.setattr(bounded_lines, "_ENDLESS", 1 << 25)
    with (
        open_log(Path("/dev/zero")) as file,
        pytest.raises(RecordError, match="has no end; is it a log"),
    ):
        file.readline()


def test_a_disk_that_fails_is_named():
    with (
        open_log(Path("/proc/self/mem")) as file,  # nothing is mapped at its beginning
        pytest.raises(RecordError, match="cannot read the log /proc/self/mem: Input/output error"),
    ):
        file.readline()


def test_a_line_that_is_too_long_costs_that_line(tmp_path, monkeypatch):
    monkeypatch.setattr(bounded_lines, "LONGEST_LINE", 1 << 12)
    path = tmp_path / "long.log"
    path.write_text(f"{TVM_ROW}\n{{{'x' * 50_000}\n{TVM_ROW}\n{'y' * 50_000}")
    with open_log(path) as file:
        lines = list(file)
    assert [len(one) for one in lines] == [len(TVM_ROW) + 1, 65, len(TVM_ROW) + 1, 64]
    assert lines[1].endswith("\n")
    assert len(list(load_from_file(path))) == 2
