"""Energy and power for scripts of Kernel Tuner: what results have, and what is best of them."""

import math

import pytest

from autotune.errors import TunerError
from autotune.kernel_tuner.measured import Measured
from autotune.kernel_tuner.objective import wanted_of
from autotune.kernel_tuner.observers.nvml import NVMLObserver
from autotune.measure.evidence import Energy, Evidence
from autotune.measure.objective import TIME
from autotune.measure.types import MeasureResult
from tests.record.records import failed, make_config, make_input

CLOCKS = {"sm_mhz": 1980, "memory_mhz": 3201, "temperature_c": 41}
INP = make_input("t", (1,), "cuda", make_config(0, block_size_x=128))
RESULT = MeasureResult(
    (2e-3,), 0, 1.0, 1.0, "", Evidence(energy=Energy(0.5, 250.0), clocks=CLOCKS)
)
METRICS = {
    "GFLOP/s": lambda p: p["block_size_x"] / p["time"],
    "GFLOPS/W": "block_size_x / nvml_energy",
    "J/thread": "nvml_energy / block_size_x",
}


def measured(observables, objective=None, higher=None, metrics=None):
    observers = [NVMLObserver(observables)]
    return Measured(0, 7, observers, wanted_of(objective, higher, metrics or {}, observers))


def test_results_have_what_is_observed():
    found = measured(["nvml_energy", "nvml_power", "core_freq", "mem_freq", "temperature"])
    result = found.result(INP, RESULT)
    observed = {"nvml_energy": 0.5, "nvml_power": 250.0, "core_freq": 1980, "mem_freq": 3201}
    assert observed.items() <= result.items()
    assert (result["time"], result["temperature"], result["block_size_x"]) == (2.0, 41, 128)
    assert "nvml_energy" not in measured(["temperature"]).result(INP, RESULT)
    assert "nvml_energy" not in found.result(INP, failed(4))


@pytest.mark.parametrize(
    ("objective", "higher", "cost"),
    [
        ("nvml_energy", None, 0.5), ("nvml_power", False, 250.0), ("nvml_power", True, 1 / 250),
        ("GFLOPS/W", None, 0.5 / 128), ("GFLOP/s", None, 2 / 128), ("J/thread", None, 0.5 / 128),
    ],
)  # fmt: skip
def test_the_strategy_minimises_what_is_wanted(objective, higher, cost):
    found = measured(["nvml_energy", "nvml_power"], objective, higher, METRICS)
    wanted = found.wanted.objective(found.result)
    assert wanted.cost(INP, RESULT) == pytest.approx(cost)
    assert wanted.energy
    # As of a cache that was made without an observer.
    assert wanted.cost(INP, RESULT._replace(extra={})) == math.inf


def test_time_needs_no_energy_and_other_names_are_refused():
    assert measured(["nvml_energy"]).wanted.objective(None) is TIME
    with pytest.raises(TunerError, match="objective: expected one of time, nvml_energy, GFLOP/s"):
        measured(["nvml_energy"], "nvml_power", None, METRICS)


def test_a_runner_measures_energy_of_all_for_so_long():
    runner = Measured(0, 7, [NVMLObserver(["nvml_power"], continuous_duration=0.4)], None).runner(
        []
    )
    assert runner.energy
    timing = runner.options.timing
    assert (timing.energy_s, timing.energy_near_s, timing.hopeless) == (0.4, 0.4, 0)
    assert not Measured(0, 7, [NVMLObserver(["core_freq"])], None).runner([]).energy


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"observables": ["gr_voltage"]}, "observables must be one of 'nvml_energy'"),
        ({"observables": ["power_readings"]}, "observables must be one of"),
        ({"observables": "nvml_energy"}, "observables must be a list of names"),
        ({"observables": [], "continuous_duration": 0}, "continuous_duration must be positive"),
    ],
)
def test_what_cannot_be_observed_is_refused(options, message):
    with pytest.raises(TunerError, match=f"NVMLObserver: {message}"):
        NVMLObserver(**options)
