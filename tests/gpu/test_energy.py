"""The energy of kernels on a device, beside their time."""

import numpy as np
import pytest

import autotune.task as at
from autotune.kernel import SourceKernel, arg
from autotune.kernel_tuner import tune_kernel
from autotune.kernel_tuner.observers.nvml import NVMLObserver
from autotune.measure import LocalBuilder, LocalRunner, Session, TimingPolicy, measure_option
from autotune.record import load_from_file, pareto_front
from autotune.runtime.energy import meter_of
from autotune.target import Target
from autotune.tuner import GridSearchTuner, callback

pytestmark = [pytest.mark.gpu, pytest.mark.alone]

# Each thread multiplies and adds; the more often, the longer.
SOURCE = """
extern "C" __global__ void busy(const float *x, float *y) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  float a = x[i], b = 0.5f;
  for (int k = 0; k < TIMES; k++) { a = a * 0.999f + b; b = b * 0.999f + a; }
  y[i] = a + b;
}
"""
N = 1 << 18
# What no device that this runs on takes less than when idle, or more than.
LEAST_W, MOST_W = 5, 2000


@at.template("gpu_test.energy")
def busy():
    cfg = at.get_config()
    cfg.define_knob("times", [200, 400, 8000])
    return SourceKernel(
        "busy", SOURCE, [arg("x", (N,)), arg("y", (N,), role="out")],
        {"TIMES": cfg["times"].val}, grid=N // 256, block=256,
    )  # fmt: skip


@pytest.fixture
def task():
    return at.create("gpu_test.energy", (), target="cuda")


def option(**more):
    runner = LocalRunner(cooldown_interval=0, verify=False, energy=True, **more)
    return measure_option(LocalBuilder(timeout=60), runner)


def test_a_meter_counts_while_nothing_runs():
    meter = meter_of(Target("cuda"), 0)
    assert meter.joules() <= meter.joules()
    assert not meter.shared


def test_a_kernel_that_takes_twice_as_long_takes_about_twice_the_energy(task):
    configs = [task.config_space.get(i) for i in (0, 1)]
    with Session(option()) as session:
        short, long = session.measure(task, configs)
    for one in (short, long):
        energy = one.evidence.energy
        assert LEAST_W < energy.watts < MOST_W
        # In a long row of runs clocks are not what they are in a short sample.
        assert 0.5 < energy.joules / (energy.watts * one.seconds) < 2
        assert energy.runs > 100
        assert energy.seconds >= 0.1
    assert long.joules / short.joules == pytest.approx(long.seconds / short.seconds, rel=0.25)


def test_what_cannot_take_the_least_has_a_bound_unless_all_are_measured(task):
    configs = [task.config_space.get(i) for i in (0, 2)]
    with Session(option()) as session:  # one by one: of two, the slow one may be built first
        [best], [slow] = (session.measure(task, [one]) for one in configs)
    assert slow.joules is None
    assert best.joules < slow.evidence.energy.at_least
    with Session(option(timing=TimingPolicy(hopeless=0))) as session:
        _, slow = session.measure(task, configs)
    assert slow.joules > best.joules


def test_tuning_for_energy_finds_the_least(task, tmp_path):
    result = GridSearchTuner(task).tune(
        3, option(), callbacks=[callback.log_to_file(tmp_path / "x.log")], objective="energy"
    )
    pairs = list(load_from_file(tmp_path / "x.log"))
    assert result.joules == min(one.joules for _, one in pairs if one.joules)
    assert result.default_joules is not None
    assert "mJ" in str(result) or "uJ" in str(result)
    assert 1 <= len(pareto_front(pairs)) <= 2


def test_a_script_of_kernel_tuner_observes_energy():
    x = np.ones(N, "float32")
    source = SOURCE.replace('extern "C" ', "").replace("blockDim.x", "block_size_x")
    results, about = tune_kernel(
        "busy", source, N, [x, np.zeros_like(x)], {"block_size_x": [128, 256], "TIMES": [200]},
        observers=[NVMLObserver(["nvml_energy", "nvml_power"], continuous_duration=0.3)],
        metrics={"GFLOPS/W": lambda p: 4 * N * p["TIMES"] / 1e9 / p["nvml_energy"]},
        objective="GFLOPS/W", quiet=True, lang="CUDA",
    )  # fmt: skip
    assert len(results) == 2
    for one in results:
        print(one)
        assert 0.5 < one["nvml_energy"] / (one["nvml_power"] * one["time"] / 1e3) < 2
    assert about["best_config"]["GFLOPS/W"] == max(one["GFLOPS/W"] for one in results)
