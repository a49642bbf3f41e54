"""Log files: read as they are found, appended to by many, rewritten whole."""

import fcntl
import io
import json
import logging
import os
import signal
import stat
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import pytest

from autotune.errors import AutotuneError, RecordError
from autotune.record import (
    ApplyHistoryBest,
    LogReader,
    LogWriter,
    compact,
    decode,
    encode,
    load_from_buffer,
    load_from_file,
    locking,
    pick_best,
    split_workload,
    write_log,
)
from autotune.task import TASK_TABLE
from autotune.tuner.callback import log_to_file
from autotune.tvm.autotvm.record import main
from tests.record.records import TVM_ROW, failed, good, make_config, make_input

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


def test_a_writer_makes_folders_and_appends(tmp_path):
    log = tmp_path / "deep" / "er" / "x.log"
    LogWriter(log).append(make_input(), good(0.5))
    LogWriter(log, fsync=True).extend([(make_input(), good(0.25)), (make_input(), failed(2))])
    assert [r.costs for _, r in load_from_file(log)] == [(0.5,), (0.25,), ()]
    LogWriter(log).extend([])
    assert log.read_bytes().endswith(b"\n")


def test_a_row_after_a_torn_one_starts_on_its_own_line(tmp_path):
    log = tmp_path / "x.log"
    log.write_text(TVM_ROW + "\n" + TVM_ROW[:100])
    LogWriter(log).append(make_input(), good(0.125))
    reader = LogReader(log.read_text().splitlines(keepends=True), "x", quiet=True)
    assert [r.costs for _, r in reader] == [(0.00012345, 0.00012351), (0.125,)]
    assert [p.line for p in reader.problems] == [2]


WRITE = """
import sys
from autotune.record import LogWriter
from tests.record.records import good, make_config, make_input
writer = LogWriter(sys.argv[1])
who = int(sys.argv[2])
for i in range(int(sys.argv[3])):
    config = make_config(i, who=who, text="x" * (37 * i % 5000))
    writer.append(make_input(config=config), good(1.0 + i))
    if i == 0:
        print("started", flush=True)
"""


def start_writer(log, who, rows):
    return subprocess.Popen(
        [sys.executable, "-c", WRITE, str(log), str(who), str(rows)],
        cwd=ROOT, stdout=subprocess.PIPE,
    )  # fmt: skip


def test_many_processes_share_a_log_without_tearing_a_row(tmp_path):
    log, rows = tmp_path / "shared.log", 250
    writers = [start_writer(log, who, rows) for who in range(4)]
    assert [writer.wait() for writer in writers] == [0] * 4
    for writer in writers:
        writer.stdout.close()
    reader = LogReader(log.read_text().splitlines(keepends=True), "shared", quiet=True)
    seen = [(inp.config["who"].val, inp.config.index) for inp, _ in reader]
    assert not reader.problems
    assert len(seen) == 4 * rows
    for who in range(4):  # and each process's rows in its order
        assert [i for w, i in seen if w == who] == list(range(rows))


PLAIN = """
import sys
from autotune.record import encode
from tests.record.records import good, make_config, make_input
for i in range(int(sys.argv[3])):
    config = make_config(i, who=int(sys.argv[2]), text="x" * (37 * i % 5000))
    row = encode(make_input(config=config), good(1.0 + i)) + "\\n"
    with open(sys.argv[1], "a") as file:
        file.write(row)
    if i == 0:
        print("started", flush=True)
"""


@pytest.mark.parametrize("code", [WRITE, PLAIN], ids=["LogWriter", "another program"])
def test_compacting_while_others_append_loses_no_row(tmp_path, code):
    log, rows = tmp_path / "shared.log", 100
    argv = [sys.executable, "-c", code, str(log)]
    writers = [
        subprocess.Popen([*argv, str(who), str(rows)], cwd=ROOT, stdout=subprocess.PIPE)
        for who in range(3)
    ]
    for writer in writers:
        writer.stdout.readline()
    while any(writer.poll() is None for writer in writers):
        compact(log)
        time.sleep(0.02)
    for writer in writers:
        writer.stdout.close()
        assert writer.returncode == 0
    compact(log)
    seen = [(inp.config["who"].val, inp.config.index) for inp, _ in load_from_file(log)]
    assert len(seen) == len(set(seen)) == 3 * rows


def test_a_stopped_program_that_holds_a_log_stops_no_other(tmp_path, monkeypatch):
    log = tmp_path / "x.log"
    monkeypatch.setattr(locking, "PATIENCE_S", 0.05)
    LogWriter(log).append(make_input(), good(0.5))
    with log.open() as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        LogWriter(log).append(make_input(), good(0.25))
    assert [r.costs for _, r in load_from_file(log)] == [(0.5,), (0.25,)]


def test_a_last_row_without_its_newline_survives_compacting(tmp_path):
    log = tmp_path / "x.log"
    log.write_text(TVM_ROW + "\n" + encode(make_input(config=make_config(1, k=1)), good(0.5)))
    assert compact(log) == (2, 0)
    log.write_text(log.read_text() + TVM_ROW[:50])
    assert compact(log) == (2, 1)
    assert len(list(load_from_file(log))) == 2


def test_compacting_ends_lines_where_readers_do(tmp_path):
    log = tmp_path / "x.log"
    rows = [encode(make_input(config=make_config(k, k=k)), good(0.5)) for k in range(4)]
    log.write_bytes("\r\n".join(["\r".join(rows[:3]), rows[3]]).encode())
    assert len(list(load_from_file(log))) == 4
    assert compact(log) == (4, 0)
    assert len(list(load_from_file(log))) == 4


def test_a_log_may_be_any_path_and_a_link_stays_one(tmp_path):
    class Somewhere:
        def __init__(self, path):
            self.path = path

        def __fspath__(self):
            return self.path

    log, link = tmp_path / "x.log", tmp_path / "link.log"
    link.symlink_to(log)
    for path in (Somewhere(str(link)), Somewhere(os.fsencode(link)), str(link), link):
        LogWriter(path).append(make_input(), good(0.5))
        assert len(list(load_from_file(path))) in (1, 2)  # the one that was kept, and the new one
        assert ApplyHistoryBest(path).best_by_targetkey
        assert compact(path)[0] == 1
        assert pick_best(path, Somewhere(str(tmp_path / "best.log"))) == 1
        assert [p.name for p in split_workload(path)] == ["link.log.000.wkl"]
    assert link.is_symlink()
    for wrong in (3, None, ["x.log"]):
        with pytest.raises(RecordError, match="must be a path"):
            load_from_file(wrong)


def test_a_writer_killed_at_any_moment_loses_at_most_the_row_in_hand(tmp_path):
    log = tmp_path / "killed.log"
    written = 0
    for delay_s in (0.0, 0.005, 0.02):
        writer = start_writer(log, 0, 10**6)
        writer.stdout.readline()
        time.sleep(delay_s)
        writer.send_signal(signal.SIGKILL)
        writer.wait()
        writer.stdout.close()
        reader = LogReader(log.read_text().splitlines(keepends=True), "killed", quiet=True)
        indices = [inp.config.index for inp, _ in reader]
        assert len(reader.problems) <= 3
        assert len(indices) > written
        assert indices[written:] == list(range(len(indices) - written))
        written = len(indices)


@pytest.fixture
def rescue_folder(tmp_path, monkeypatch):
    folder = tmp_path / "rescue"
    folder.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(folder))
    return folder


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="needs /dev/full")
def test_a_full_disk_names_the_log_and_saves_the_rows(rescue_folder):
    writer = LogWriter("/dev/full")
    for i in range(2):
        with pytest.raises(RecordError) as caught:
            writer.append(make_input(), good(1.0 + i))
    (rescued,) = rescue_folder.iterdir()
    assert str(caught.value) == (
        f"cannot append to the log /dev/full: No space left on device. 2 rows are kept in "
        f"{rescued}: make room, then `cat {rescued} >> /dev/full`"
    )
    assert [r.costs for _, r in load_from_file(rescued)] == [(1.0,), (2.0,)]


def test_rows_that_could_not_be_written_follow_when_there_is_room(tmp_path, rescue_folder):
    folder = tmp_path / "logs"
    folder.write_text("a file where the folder should be")
    writer = LogWriter(folder / "x.log")
    with pytest.raises(RecordError, match="cannot append to the log"):
        writer.append(make_input(), good(1.0))
    assert len(list(rescue_folder.iterdir())) == 1
    folder.unlink()
    writer.append(make_input(), good(2.0))
    assert [r.costs for _, r in load_from_file(folder / "x.log")] == [(1.0,), (2.0,)]
    assert not list(rescue_folder.iterdir())


FILL = """
import resource, signal, sys, tempfile
from pathlib import Path
from autotune.errors import RecordError
from autotune.record import LogWriter, encode
from tests.record.records import good, make_config, make_input

log, tempfile.tempdir, room = sys.argv[1], sys.argv[2], int(sys.argv[3])
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
unlimited = resource.RLIM_INFINITY
writer = LogWriter(log)
rows = [encode(make_input(config=make_config(i, k=i)), good(1.0)) + "\\n" for i in range(5)]
# A file that may not grow is written to like one on a disk without room.
Path(log).write_text("#" * 999 + "\\n")
resource.setrlimit(resource.RLIMIT_FSIZE, (1000 + 2 * len(rows[0]) + room, unlimited))
try:
    writer.write(rows[:4])
except RecordError as error:
    print(error)
resource.setrlimit(resource.RLIMIT_FSIZE, (unlimited, unlimited))
if room >= 0:
    writer.write(rows[4:])
"""


def indices(path):
    return [inp.config.index for inp, _ in load_from_file(path)]


@pytest.mark.parametrize(("room", "kept"), [(30, 2), (0, 2), (-1, 2), (-2, 3)])
def test_a_row_that_is_in_the_log_is_not_written_again(tmp_path, rescue_folder, room, kept):
    log = tmp_path / "x.log"
    argv = [sys.executable, "-c", FILL, str(log), str(rescue_folder), str(room)]
    done = subprocess.run(argv, cwd=ROOT, capture_output=True, text=True, check=True)
    assert f"{kept} rows are kept in" in done.stdout
    if room < 0:  # the program ended before there was room; its user follows the advice
        (rescued,) = rescue_folder.iterdir()
        with log.open("a") as file:
            file.write(rescued.read_text())
        assert indices(log) == [0, 1, 2, 3]
    else:
        assert indices(log) == [0, 1, 2, 3, 4]
        assert not list(rescue_folder.iterdir())


def test_every_writer_has_a_rescue_file_of_its_own(tmp_path, rescue_folder):
    folders = [tmp_path / "a", tmp_path / "b"]
    for folder in folders:
        folder.write_text("a file where the folder should be")
    logs = [folders[0] / "x.log", folders[1] / "x.log", folders[1] / "x.log"]
    writers = [LogWriter(log) for log in logs]
    for i, writer in enumerate(writers):
        with pytest.raises(RecordError, match="1 rows are kept in"):
            writer.append(make_input(config=make_config(i, k=i)), good(1.0))
    folders[0].unlink()
    writers[0].append(make_input(config=make_config(9, k=9)), good(1.0))
    assert indices(logs[0]) == [0, 9]
    assert sorted(i for path in rescue_folder.iterdir() for i in indices(path)) == [1, 2]


def test_when_nothing_can_be_written_the_error_holds_the_rows(monkeypatch):
    monkeypatch.setattr(tempfile, "tempdir", "/dev/null/nowhere")
    writer = LogWriter("/dev/null/nowhere/x.log")
    with pytest.raises(RecordError, match="Copy these rows by hand") as caught:
        writer.append(make_input(), good(3.0))
    assert decode(str(caught.value).splitlines()[1])[1].costs == (3.0,)


def sample_log(tmp_path):
    """Two workloads, one of them on two targets; a repetition and a failure."""
    log = tmp_path / "all.log"
    a, b = make_config(0, k=1), make_config(1, k=2)
    pairs = [
        (make_input("t", (1,), "llvm", a), good(3.0)),
        (make_input("t", (1,), "llvm", b), good(2.0)),
        (make_input("t", (1,), "llvm", a), good(1.0)),
        (make_input("t", (2,), "llvm", a), failed(4)),
        (make_input("t", (1,), "cuda -model=v100", a), good(5.0)),
        (make_input("t", (1,), "cuda -model=a100", b), good(4.0)),
    ]
    write_log(log, pairs)
    return log


def costs(path):
    return [result.costs for _, result in load_from_file(path)]


def test_the_best_of_each_workload_is_picked_and_merged(tmp_path):
    log, best = sample_log(tmp_path), tmp_path / "best.log"
    assert pick_best(log, best) == 3
    assert costs(best) == [(1.0,), (5.0,), (4.0,)]
    better = tmp_path / "better.log"
    write_log(better, [(make_input("t", (1,), "llvm", make_config(9, k=9)), good(0.5))])
    assert pick_best(better, best) == 3
    assert sorted(costs(best)) == [(0.5,), (4.0,), (5.0,)]


def test_a_log_is_split_by_workload_and_target(tmp_path):
    log = sample_log(tmp_path)
    clean = split_workload(log)
    assert [path.name for path in clean] == [f"all.log.{i:03d}.wkl" for i in range(4)]
    assert [len(costs(path)) for path in clean] == [2, 1, 1, 1]
    assert [len(costs(path)) for path in split_workload(log, clean=False)] == [3, 1, 1, 1]


def test_compacting_keeps_the_last_of_each_configuration(tmp_path):
    log = sample_log(tmp_path)
    with log.open("a") as file:
        file.write("garbage\n")
    mode = log.stat().st_mode
    assert compact(log) == (5, 2)
    assert costs(log) == [(1.0,), (2.0,), (), (5.0,), (4.0,)]
    assert log.stat().st_mode == mode
    assert [path.name for path in tmp_path.iterdir()] == ["all.log"]


def test_a_log_that_cannot_be_rewritten_is_left_alone(tmp_path):
    with pytest.raises(RecordError, match=r"cannot write the log .*; it is unchanged"):
        write_log("/dev/null/x.log", [])
    log = sample_log(tmp_path)
    before = log.read_bytes()
    bad = make_input(config=make_config(0, k={1}))
    with pytest.raises(RecordError, match="no JSON form"):
        write_log(log, [(bad, good(1.0))])
    assert log.read_bytes() == before


def test_the_module_takes_the_options_of_autotvm(tmp_path, capsys):
    log = sample_log(tmp_path)
    main(["--mode", "read", "--i", str(log), "--begin", "1", "--end", "3"])
    printed = capsys.readouterr().out.splitlines()
    assert [json.loads(line)["result"][0] for line in printed] == [[2.0], [1.0]]
    main(["--mode", "pick", "--i", str(log)])
    assert len(costs(f"{log}.best.log")) == 3
    main(["--mode", "split", "--i", str(log)])
    assert len(list(tmp_path.glob("*.wkl"))) == 4


def test_encoding_is_one_line_per_record(tmp_path):
    message = "line one\nline two\r\u2028three"
    log = tmp_path / "x.log"
    LogWriter(log).append(make_input(), failed(3, message))
    assert log.read_bytes().count(b"\n") == 1
    assert [r.error_msg for _, r in load_from_file(log)] == [message]
    assert encode(make_input(), failed(3, message)).isascii()


def test_the_loops_and_the_kernel_of_a_record_are_printed(tmp_path, capsys, monkeypatch):
    (tmp_path / "printed_template.py").write_text(
        "from autotune import te\n"
        "from autotune.task import get_config, template\n"
        "@template('test.printed')\n"
        "def add(n):\n"
        "    a = te.placeholder((n,), name='A')\n"
        "    b = te.compute((n,), lambda i: a[i] + 1.0, name='B')\n"
        "    s = te.create_schedule(b.op)\n"
        "    get_config().define_split('tile', n, num_outputs=2)\n"
        "    get_config()['tile'].apply(s, b, b.op.axis[0])\n"
        "    return s, [a, b]\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    log = tmp_path / "x.log"
    config = {"index": 3, "code_hash": None, "entity": [["tile", "sp", [-1, 8]]]}
    write_log(log, [(make_input("test.printed", (64,), "llvm", config), good(1.0))])
    main(["--i", str(log), "--ir", "--code", "--module", "printed_template"])
    printed = capsys.readouterr().out
    assert "for i.inner in 0..8:" in printed
    assert "void default_function(" in printed
    del TASK_TABLE["test.printed"]


def test_a_file_without_any_record_is_doubted(tmp_path, caplog):
    other = tmp_path / "readme.txt"
    other.write_text("not\na log\n")
    assert not list(load_from_file(other))
    assert "none of its 2 lines is a record" in caplog.text
    assert "is it a log?" in caplog.text


def test_a_folder_is_refused_before_anything_is_measured(tmp_path):
    with pytest.raises(RecordError, match="it is a folder; give a file in it"):
        LogWriter(tmp_path)


def test_a_folder_that_cannot_be_made_is_no_full_disk(tmp_path, rescue_folder):
    (tmp_path / "file").write_text("")
    with pytest.raises(RecordError, match="choose another path"):
        LogWriter(tmp_path / "file" / "log").append(make_input(), good())


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
