"""Logs are rewritten whole: picked, split, compacted, converted and printed."""

import errno
import json
import tempfile
import tracemalloc
from pathlib import Path

import pytest

from autotune.errors import RecordError
from autotune.record import (
    LogWriter,
    compact,
    encode,
    load_from_file,
    pick_best,
    split_workload,
    write_log,
)
from autotune.task import TASK_TABLE
from autotune.tvm.autotvm.record import main
from tests.record.records import failed, good, make_config, make_input

ROOT = Path(__file__).parent.parent.parent


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


def test_compacting_keeps_what_worked_when_it_has_failed_since(tmp_path):
    log, a = tmp_path / "all.log", make_config(0, k=1)
    results = [good(1.0), good(2.0), failed(4), failed(1)]
    write_log(log, [(make_input("t", (1,), "llvm", a), result) for result in results])
    assert compact(log) == (1, 3)
    assert costs(log) == [(2.0,)]


def test_compacting_keeps_the_records_of_a_later_version(tmp_path):
    log = sample_log(tmp_path)
    later = log.read_text().replace('"version": 0.2', '"version": 0.3').splitlines(True)[:2]
    with log.open("a") as file:
        file.writelines([*later, "# race " + later[0], later[0][:40] + "\n"])
    assert compact(log) == (5, 2)
    assert log.read_text().endswith("".join([*later, "# race " + later[0]]))


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


@pytest.mark.parametrize("joined", ["in order", "the older last"])
def test_compacting_keeps_a_failure_of_an_edited_kernel_over_a_time_of_the_text_before(
    tmp_path, joined
):
    log = tmp_path / "x.log"
    worked = make_input(), good(1.0, timestamp=1.0, kernel_hash="aa")
    fails = make_input(), failed(3, timestamp=2.0)._replace(extra={"kernel_hash": "bb"})
    LogWriter(log).extend([worked, fails] if joined == "in order" else [fails, worked])
    assert compact(log) == (1, 1)
    assert [result.error_no for _, result in load_from_file(log)] == [3]


def test_the_winner_of_a_race_is_no_further_trial_of_an_older_text(tmp_path, caplog):
    log = tmp_path / "x.log"
    race = {"race": {"candidates": [{"index": 0}]}}
    old, new = (
        good(1.0, timestamp=1.0, kernel_hash="aa"),
        good(2.0, timestamp=2.0, kernel_hash="bb"),
    )
    raced = old._replace(extra={"kernel_hash": "aa", **race})
    LogWriter(log).extend([(make_input(), result) for result in (old, raced, new)])
    assert pick_best(log, tmp_path / "best.log") == 1
    assert "1 record is of an older kernel text, left out" in caplog.text


def test_compacting_takes_less_memory_than_the_log_is_long(tmp_path):
    log = tmp_path / "x.log"
    lines = [
        encode(make_input("t", (1,), "llvm", make_config(i, k=i)), failed(4, "x" * 1000)) + "\n"
        for i in range(500)
    ]
    log.write_text("".join(lines * 8))
    compact(tmp_path / "x.log", tmp_path / "before.log")  # what is loaded once
    tracemalloc.start()
    try:
        assert compact(log) == (500, 3500)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert log.read_text() == "".join(lines)
    assert peak < 7 * log.stat().st_size


def test_compacting_on_a_full_disk_leaves_the_log_alone(tmp_path, monkeypatch):
    log = sample_log(tmp_path)
    before = log.read_bytes()

    def full(**where):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(tempfile, "TemporaryFile", full)
    with pytest.raises(RecordError, match=r"cannot write .*: No space left on device; it is unch"):
        compact(log)
    assert log.read_bytes() == before
    assert [path.name for path in tmp_path.iterdir()] == ["all.log"]
