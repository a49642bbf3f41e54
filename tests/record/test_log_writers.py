"""Logs are appended to by many: no row is torn, none is lost."""

import fcntl
import os
import subprocess
import tempfile
import time
from pathlib import Path

import pytest

from autotune.auto_scheduler import RecordToFile
from autotune.errors import RecordError
from autotune.record import (
    ApplyHistoryBest,
    LogReader,
    LogWriter,
    compact,
    decode,
    encode,
    load_from_file,
    locking,
    open_database,
    pick_best,
    split_workload,
)
from autotune.tuner.callback import log_to_file
from tests.forked import Script, forkserver_with
from tests.record.records import TVM_ROW, failed, good, make_config, make_input


@pytest.fixture(scope="module", autouse=True)
def forkserver():
    with forkserver_with(["autotune.record", "tests.record.records"]):
        yield


def load(path):
    """Read all records of a log."""
    return list(load_from_file(path))


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


def test_many_processes_share_a_log_without_tearing_a_row(tmp_path):
    log, rows = tmp_path / "shared.log", 250
    writers = [Script(WRITE, log, who, rows) for who in range(4)]
    assert [writer.wait(60) for writer in writers] == [0] * 4
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
    writers = [Script(code, log, who, rows) for who in range(3)]
    for writer in writers:
        writer.stdout.readline()
    while any(writer.poll() is None for writer in writers):
        compact(log)
        time.sleep(0.02)
    for writer in writers:
        writer.stdout.close()
        assert writer.poll() == 0
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
        with Script(WRITE, log, 0, 10**6) as writer:
            writer.stdout.readline()
            time.sleep(delay_s)
            writer.kill()
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
        f"cannot append to the log /dev/full: No space left on device. 2 rows kept in "
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


def test_the_command_that_appends_rescued_rows_may_be_pasted(tmp_path, rescue_folder):
    folder = tmp_path / "my logs"
    folder.write_text("a file where the folder should be")
    with pytest.raises(RecordError) as caught:
        LogWriter(folder / "x.log").append(make_input(), good(1.0))
    folder.unlink()
    folder.mkdir()
    subprocess.run(str(caught.value).split("`")[1], shell=True, check=True)
    assert [r.costs for _, r in load_from_file(folder / "x.log")] == [(1.0,)]


FILL = """
import resource, signal, sys, tempfile
from pathlib import Path
from autotune.auto_scheduler import RecordToFile
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
    with Script(FILL, log, rescue_folder, room) as filler:
        said = filler.stdout.read()
    assert filler.poll() == 0
    assert f"{kept} rows kept in" in said
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
        with pytest.raises(RecordError, match="1 row kept in"):
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


def test_a_folder_that_cannot_be_made_is_no_full_disk(tmp_path, rescue_folder):
    (tmp_path / "file").write_text("")
    with pytest.raises(RecordError, match="choose another path"):
        LogWriter(tmp_path / "file" / "log").append(make_input(), good())


@pytest.mark.parametrize("use", [LogWriter, open_database, log_to_file, load])
def test_a_path_where_no_file_can_be_is_refused_in_words(tmp_path, use):
    loop = tmp_path / "loop"
    loop.symlink_to(loop)
    for path, reason in ((tmp_path / ("x" * 300), "name too long"), (loop / "a.log", "symbolic")):
        with pytest.raises(RecordError, match=f"cannot use the path .*{reason}"):
            use(path)
        assert not path.parent.is_dir() or list(path.parent.iterdir()) == [loop]


@pytest.mark.parametrize("begin", [log_to_file, RecordToFile])
@pytest.mark.parametrize("name", ["x.log", "missing/folder/x.log"])
def test_a_log_that_cannot_be_written_is_refused_before_anything_is_measured(
    begin, name, tmp_path, monkeypatch
):
    monkeypatch.setattr(os, "access", lambda place, mode: Path(place) != tmp_path)
    with pytest.raises(RecordError, match=f"{tmp_path} is not writable; choose another path"):
        begin(tmp_path / name)
    assert not list(tmp_path.iterdir())
    (tmp_path / "known.log").touch()
    begin(tmp_path / "known.log")


@pytest.mark.parametrize("path", ["file/x.log", "file/folder/x.log"])
def test_a_log_below_a_file_is_refused_before_anything_is_measured(path, tmp_path):
    (tmp_path / "file").touch()
    with pytest.raises(RecordError, match="file is no folder; choose another path"):
        log_to_file(tmp_path / path)


@pytest.mark.parametrize("name", ["x.log", "logs/", "sqlite:///x.db"])
def test_a_relative_log_stays_where_it_was_when_the_program_changes_its_folder(
    name, tmp_path, monkeypatch
):
    if name.startswith("sqlite"):
        pytest.importorskip("sqlalchemy")
    (there, elsewhere) = (tmp_path / "there", tmp_path / "elsewhere")
    there.mkdir(), elsewhere.mkdir()
    monkeypatch.chdir(there)
    callback, database = log_to_file(name), open_database(name)
    callback(None, [make_input()], [good(0.5)])
    monkeypatch.chdir(elsewhere)
    callback(None, [make_input()], [good(0.25)])
    assert [r.costs for _, r in database.records()] == [(0.5,), (0.25,)]
    assert not list(elsewhere.iterdir())


def test_a_log_is_written_by_a_program_whose_folder_was_removed(tmp_path, monkeypatch):
    gone = tmp_path / "gone"
    gone.mkdir()
    monkeypatch.chdir(gone)
    gone.rmdir()
    log_to_file(tmp_path / "x.log")(None, [make_input()], [good(0.5)])
    assert len(load(tmp_path / "x.log")) == 1
    with pytest.raises(RecordError, match="cannot append to the log"):
        LogWriter("x.log").append(make_input(), good(0.5))
