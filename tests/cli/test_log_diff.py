"""``autotune log diff`` as a guard in CI: when it ends with which status, and what it says."""

import json

import pytest
from click.testing import CliRunner

from autotune.cli.main import main
from autotune.record import encode
from tests.record.records import failed, good, make_config, make_input


def row(workload, seconds, k=1, **known):
    result = good(seconds, **known) if seconds else failed(4, "it crashed")
    return encode(make_input(workload, (64,), "llvm", make_config(k, k=k)), result)


@pytest.fixture
def log(tmp_path):
    def written(name, *rows):
        path = tmp_path / name
        path.write_text("".join(f"{one}\n" for one in rows))
        return path

    return written


def diff(*words):
    return CliRunner().invoke(main, ["log", "diff", *map(str, words)])


TIGHT = {"ci95": [0.995e-3, 1.005e-3], "noise_floor": 0.01, "samples": 9}


def test_a_regression_beyond_noise_ends_with_status_1_and_is_named(log):
    old = log("a.log", row("gemm", 1e-3, **TIGHT), row("conv", 1e-3, **TIGHT))
    new = log("b.log", row("gemm", 1.2e-3), row("conv", 1e-3, **TIGHT))
    done = diff(old, new, "--fail-above", "5%")
    assert done.exit_code == 1
    assert "regression: gemm (64,) on llvm -keys=cpu: slower by +20.0% (+13" in done.output
    assert "regression: conv" not in done.output
    assert diff(old, new).exit_code == 0
    assert diff(old, new, "--fail-above", "25%").exit_code == 0
    assert diff(old, new, "--fail-above", "0.05", "--task", "conv").exit_code == 0


def test_a_change_within_the_noise_is_none(log):
    old = log("a.log", row("gemm", 1e-3, ci95=[0.7e-3, 1.4e-3], samples=5, noise_floor=0.3))
    new = log("b.log", row("gemm", 1.2e-3, **{**TIGHT, "ci95": [1.19e-3, 1.21e-3]}))
    done = diff(old, new, "--fail-above", "5%")
    assert done.exit_code == 0, done.output
    assert "same" in done.output


def test_trials_that_all_fail_now_are_a_regression_and_a_missing_workload_only_if_asked(log):
    old = log("a.log", row("gemm", 1e-3), row("conv", 1e-3))
    lost = diff(old, log("b.log", row("gemm", None), row("conv", 1e-3)), "--fail-above", "5%")
    assert lost.exit_code == 1
    assert "all its trials fail" in lost.output
    less = log("c.log", row("conv", 1e-3))
    assert diff(old, less, "--fail-above", "5%").exit_code == 0
    asked = diff(old, less, "--fail-above", "5%", "--fail-missing")
    assert asked.exit_code == 1
    assert "missing: gemm (64,)" in asked.output


def test_a_guard_that_compares_nothing_is_no_success(log):
    old, other = log("a.log", row("gemm", 1e-3)), log("b.log", row("conv", 1e-3))
    for new in (other, log("empty.log")):
        assert diff(old, new).exit_code == 0
        done = diff(old, new, "--fail-above", "5%")
        assert done.exit_code == 1
        assert "has no workload of" in done.output
        assert "nothing was compared" in done.output


def test_a_guard_of_workloads_that_fail_in_both_logs_is_no_success(log):
    old, new = log("a.log", row("gemm", None)), log("b.log", row("gemm", None), row("conv", 1e-3))
    assert diff(old, new).exit_code == 0
    done = diff(old, new, "--fail-above", "5%")
    assert done.exit_code == 1
    assert "have no times of one: nothing was compared" in done.output


def test_nothing_is_missing_from_a_log_without_times_and_that_is_no_success(log):
    new = log("b.log", row("gemm", 1e-3))
    for old in (log("empty.log"), log("a.log", row("gemm", None))):
        done = diff(old, new, "--fail-missing")
        assert done.exit_code == 1
        assert "has no time of any workload: nothing can be missing" in done.output


def test_programs_get_the_change_its_interval_and_what_failed(log):
    old, new = log("a.log", row("gemm", 1e-3, **TIGHT)), log("b.log", row("gemm", 1.2e-3, k=2))
    done = diff(old, new, "--json", "--fail-above", "5%")
    assert done.exit_code == 1
    (one,) = json.loads(done.stdout)
    assert one["change"] == pytest.approx(0.2)
    low, high = one["change_ci95"]
    assert 0 < low < 0.2 < high
    assert (one["verdict"], one["regression"]) == ("slower", True)
    assert one["before_ci95"] == TIGHT["ci95"]
    assert one["after_ci95"] is None
    assert one["ratio"] == pytest.approx(1 / 1.2)
    assert one["changed"] == {"k": [1, 2]}
    assert "change_ci95" in diff(old, new, "--csv").output


def test_several_workloads_are_summed_up(log):
    names = [f"w{i}" for i in range(6)]
    old = log("a.log", *(row(name, 1e-3) for name in names))
    new = log("b.log", *(row(name, 0.5e-3) for name in names))
    assert "geometric mean of 6 workloads: -50.0%" in diff(old, new).output


@pytest.mark.parametrize("part", ["5", "x", "-1%", "5%%", "", "nan", "inf"])
def test_a_part_that_is_none_is_refused(log, part):
    old = log("a.log", row("gemm", 1e-3))
    done = diff(old, old, "--fail-above", part)
    assert done.exit_code == 2
    assert "Invalid value for '--fail-above'" in done.output


def test_a_log_that_is_missing_is_no_success(log, tmp_path):
    done = diff(log("a.log", row("gemm", 1e-3)), tmp_path / "none.log", "--fail-above", "5%")
    assert done.exit_code == 1
    assert "cannot read the log" in done.output
