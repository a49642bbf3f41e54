"""A fleet measures as a session of this host does."""

import os
import subprocess
import sys

import pytest

import autotune.task as at
from autotune.errors import FleetError, MeasureError
from autotune.fleet import Fleet
from autotune.kernel import SourceKernel, arg
from autotune.measure import LocalBuilder, LocalRunner, Session, measure_option
from autotune.record import load_from_file
from autotune.tuner import GridSearchTuner
from autotune.tuner.callback import log_to_file
from tests.fleet.small import FAST, no_fleet_stays, small_cluster, small_fleet  # noqa: F401
from tests.measure import kernels  # noqa: F401 - registers the templates

FAULTS = ("none", "compile", "wrong", "segfault", "refused", "template_bug")


@pytest.fixture
def fleet():
    return small_fleet()


def outcomes(option, task):
    """Return what came of each configuration of a task: its error, and what it was checked by."""
    with (
        Session(option)
        if option is not None
        else Session(LocalBuilder(n_parallel=2), LocalRunner(**FAST)) as session
    ):
        results = session.measure(task, map(task.config_space.get, range(len(FAULTS) + 1)))
    first = [one.error_msg.partition("\n")[0] for one in results]
    return [
        (r.error_no, said, r.evidence.verified, r.evidence.kernel_hash)
        for r, said in zip(results, first, strict=True)
    ]


def test_every_trial_ends_on_a_fleet_as_it_does_here(fleet):
    task = at.create("measure_test.faulty", (FAULTS,), target="c")
    assert outcomes(fleet, task) == outcomes(None, task)


def test_tuning_on_a_fleet_measures_each_configuration_once(fleet, tmp_path):
    task = at.create("measure_test.scale", (64, 10), target="c")
    log = tmp_path / "a.log"
    GridSearchTuner(task).tune(10, fleet, callbacks=[log_to_file(str(log))], finalists=0)
    records = list(load_from_file(str(log)))
    assert sorted(inp.config.index for inp, _ in records) == list(range(10))
    assert all(result.ok and result.evidence.verified for _, result in records)


def test_a_race_is_held_on_one_device_of_the_fleet(fleet, tmp_path):
    task = at.create("measure_test.scale", (64, 4), target="c")
    result = GridSearchTuner(task).tune(4, fleet, callbacks=[log_to_file(str(tmp_path / "a.log"))])
    assert result.best_config is not None
    assert result.seconds > 0
    assert len(fleet.runner.race_devices()) == 1


def test_a_measure_option_and_a_session_take_a_fleet(fleet):
    option = measure_option(fleet)
    assert (option["builder"], option["runner"]) == (fleet.builder, fleet.runner)
    assert Session(fleet).runner is fleet.runner


def test_a_header_of_the_users_travels_with_its_source(fleet, tmp_path):
    (tmp_path / "inner").mkdir()
    (tmp_path / "two.h").write_text('#include "inner/more.h"\n')
    (tmp_path / "inner" / "more.h").write_text("#define FACTOR 2.0f\n")

    @at.template(f"fleet_test.header_{os.getpid()}")
    def header():
        at.get_config().define_knob("knob", [0])
        return SourceKernel(
            "f",
            '#include "two.h"\nvoid f(const float *x, float *y) { *y = FACTOR * *x; }',
            args=[arg("x", (1,)), arg("y", (1,), role="out")],
            flags=[f"-I{tmp_path}"],
            reference=lambda x: 2 * x,
            language="c",
        )

    task = at.create(f"fleet_test.header_{os.getpid()}", (), target="c")
    with Session(fleet) as session:
        (result,) = session.measure(task, [task.config_space.get(0)])
    assert result.ok, result


def test_the_users_own_inputs_are_sent(fleet):
    import numpy as np

    values = np.arange(64, dtype=np.float32)
    task = at.create("measure_test.scale", (64, 2), target="c")
    with Fleet(small_cluster(), run={**FAST, "ref_input": [values, values]}) as own:
        (result,) = Session(own).measure(task, [task.config_space.get(0)])
    assert result.ok, result
    assert result.evidence.verified


def test_nobody_for_a_target_is_said_in_time():
    with Fleet(small_cluster(), patience_s=0.3) as fleet:
        fleet.wait(2)
        task = at.create("measure_test.scale", (64, 2), target="cuda -arch=sm_90")
        with pytest.raises(FleetError, match=r"no worker of the fleet measures for target cuda"):
            Session(fleet).measure(task, [task.config_space.get(0)])


def test_status_names_each_place_once(fleet):
    rows = fleet.status()
    assert sorted(row["place"] for row in rows) == ["builders", "builders", "cpu:0", "cpu:0"]
    assert all(row["host"] and not row["aside"] for row in rows)


def test_who_waits_for_devices_in_vain_is_told_which_workers_are_not_used(fleet, monkeypatch):
    why = {"tcp://old": "it speaks protocol 2, this client 3"}
    monkeypatch.setattr(fleet._members, "unused", lambda: why)
    with pytest.raises(FleetError, match=r"the fleet has 2; not used: tcp://old: it speaks"):
        fleet.wait(3, timeout_s=0.0)


@pytest.mark.parametrize("where", ["", 5, None])
def test_what_is_no_scheduler_is_refused(where):
    with pytest.raises(FleetError, match="expected the address of a scheduler"):
        Fleet(where)


def test_no_scheduler_at_an_address_is_said():
    with pytest.raises(FleetError, match=r"no scheduler answers at tcp://127.0.0.1:9"):
        Fleet("tcp://127.0.0.1:9", timeout_s=0.3)


def test_arguments_are_checked():
    with pytest.raises(MeasureError, match="weight"):
        Fleet(small_cluster(), weight=0)
    with pytest.raises(MeasureError, match="devices is the fleet's affair"):
        Fleet(small_cluster(), run={"devices": [0]})


def test_nothing_of_dask_is_imported_before_a_fleet_is_made():
    code = "import sys, autotune, autotune.fleet, autotune.cli.main; print('dask' in sys.modules)"
    told = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert told.stdout.strip() == "False"


def test_without_dask_a_fleet_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "distributed", None)
    with pytest.raises(FleetError, match=r"pip install 'autotune\[fleet\]'"):
        Fleet("tcp://127.0.0.1:9")
