"""The log commands on logs of the auto-scheduler and of networks, and on AutoTVM's key orders."""

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from autotune import te
from autotune.auto_scheduler import load_records, register_workload
from autotune.auto_scheduler.workload_registry import WORKLOAD_FUNC_REGISTRY
from autotune.cli.main import main
from autotune.errors import RecordError
from autotune.record import compact, load_from_file
from tests.record.records import TVM_ROW

DATA = Path(__file__).parents[1] / "data"
RESNET = DATA / "auto_scheduler" / "resnet-18-NHWC-B1-cuda.json"
TOPHUB = DATA / "logs" / "tophub_arm_cpu_v0.02.log"
NOTE = '# network {"network": "n", "spent_s": 3.0}\n'


def matmul_add(n, m, k, dtype):
    a, b, c = (
        te.placeholder(shape, name=x, dtype=dtype)
        for x, shape in (("A", (n, k)), ("B", (k, m)), ("C", (n, m)))
    )
    r = te.reduce_axis((0, k), name="k")
    product = te.compute((n, m), lambda i, j: te.sum(a[i, r] * b[r, j], axis=[r]), name="matmul")
    return [a, b, c, te.compute((n, m), lambda i, j: product[i, j] + c[i, j], name="out")]


def log(*arguments):
    done = CliRunner().invoke(main, ["log", *map(str, arguments)])
    assert done.exit_code == 0, done.output
    return done


def rows(*arguments):
    return json.loads(log(*arguments, "--json").stdout)


@pytest.fixture
def network_log(tmp_path):
    """A log as networks have it: templates, notes of networks, the auto-scheduler."""
    path = tmp_path / "network.log"
    first, *more = RESNET.read_text().splitlines(keepends=True)[:3]
    noted = '# with {"of": "no such state", "samples": 3}\n' + more[0]
    path.write_text(TVM_ROW + "\n" + NOTE + first + first + noted + more[1] + NOTE)
    return path


def test_show_and_best_read_logs_of_the_auto_scheduler(monkeypatch):
    for key in list(WORKLOAD_FUNC_REGISTRY):  # of networks that other tests have compiled
        monkeypatch.delitem(WORKLOAD_FUNC_REGISTRY, key)
    shown = rows("show", RESNET)
    assert len(shown) == 24
    assert shown[0]["seconds"] == pytest.approx(186.84e-6, rel=1e-3)
    assert shown[0]["args"][0] == [1, 28, 28, 128]
    best = log("best", RESNET, "--task", shown[0]["task"]).stdout
    assert "split 6.0   [1, 1, 1, 2]" in best
    assert "source   not shown" in best
    (row,) = rows("best", RESNET, "--no-source", "--task", shown[0]["task"])
    assert row["config"]["candidate"][0] == ["CI", 13]


def test_every_command_that_rewrites_keeps_a_log_of_the_auto_scheduler(tmp_path):
    path = tmp_path / "as.json"
    path.write_bytes(RESNET.read_bytes())
    assert "24 records kept, 0 lines dropped" in log("compact", path).output
    assert path.read_bytes() == RESNET.read_bytes()
    log("pick", path, tmp_path / "best.json")
    assert (tmp_path / "best.json").read_bytes() == RESNET.read_bytes()
    parts = log("split", path).output.splitlines()
    assert "".join(Path(one).read_text() for one in parts) == RESNET.read_text()


def test_a_network_log_is_compacted_without_losing_any_kind_of_line(network_log):
    before = rows("show", network_log)
    assert "4 records kept, 1 line dropped" in log("compact", network_log).output
    assert [one["trials"] for one in before] == [1, 2, 1, 1]
    assert [one["trials"] for one in rows("show", network_log)] == [1, 1, 1, 1]
    assert network_log.read_text().count(NOTE) == 2
    assert len(list(load_records(network_log))) == 3


def test_what_compact_of_python_does_not_know_stays(network_log):
    before = network_log.read_text().splitlines(keepends=True)
    assert compact(network_log) == (1, 0)
    after = network_log.read_text().splitlines(keepends=True)
    assert sorted(after[1:]) == sorted(before[1:])
    assert len(list(load_from_file(network_log))) == 1


def test_a_file_without_a_record_is_not_emptied(tmp_path):
    path = tmp_path / "notes.txt"
    path.write_text("not a log\nat all\n")
    with pytest.raises(RecordError, match=r"none of its 2 lines is a record.*It is unchanged"):
        compact(path)
    assert path.read_text() == "not a log\nat all\n"


def test_keys_of_autotvm_may_stand_in_any_order(tmp_path):
    shown = sum(one["trials"] for one in rows("show", TOPHUB))
    assert shown == len(list(load_from_file(TOPHUB))) == 338
    assert len(rows("diff", TOPHUB, TOPHUB)) == len(rows("show", TOPHUB))
    path = tmp_path / "turned.json"
    lines = map(json.loads, RESNET.read_text().splitlines())
    path.write_text("".join(json.dumps({k: r[k] for k in "vri"}) + "\n" for r in lines))
    assert len(rows("show", path)) == 24


def test_rows_for_programs_leave_what_could_not_be_read_to_standard_error(tmp_path):
    path = tmp_path / "torn.log"
    path.write_text(TVM_ROW + "\n" + TVM_ROW[:50])
    for command in (["show", path], ["best", "--no-source", path], ["diff", path, path]):
        for form in ("--json", "--csv"):
            done = log(*command, form)
            assert "1 of 2 records could not be read" in done.stderr
            assert "could not be read" not in done.stdout


def test_the_kernel_of_a_record_is_shown_where_its_workload_is_registered():
    path = DATA / "auto_scheduler" / "matmul.json"
    assert "source   not shown: " in log("best", path).stdout
    register_workload("matmul_add", matmul_add)
    try:
        assert "void " in log("best", path).stdout
    finally:
        del WORKLOAD_FUNC_REGISTRY["matmul_add"]
