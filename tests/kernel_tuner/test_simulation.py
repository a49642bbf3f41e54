"""Kernel Tuner's searches over a cache: nothing is compiled or run, whatever the kernel is in."""

import json

import numpy as np
import pytest

from autotune.errors import AutotuneError
from autotune.kernel_tuner import tune_cache, tune_kernel
from autotune.kernel_tuner.choice import Choice
from autotune.kernel_tuner.observers.nvml import NVMLObserver

STAMP = "2025-03-01 10:00:00+00:00"
SPACE = {"tile": [1, 2, 3, 4], "nvml_gr_clock": [900]}


def entry(tile):
    time = 4.0 / tile
    more = {"core_freq": 900.0, "timestamp": STAMP, "compile_time": 250.0}
    return {"tile": tile, "nvml_gr_clock": 900, "time": time, "times": [time], **more}


@pytest.fixture
def cache(tmp_path):
    path = tmp_path / "blur.json"
    about = {"device_name": "Some GPU", "kernel_name": "blur"}
    keys = {"tune_params_keys": list(SPACE), "tune_params": SPACE}
    held = {f"{tile},900": entry(tile) for tile in SPACE["tile"]}
    path.write_text(json.dumps({**about, **keys, "cache": held}))
    return path


def simulate(cache, source="there_is_no_such_file.cl", size=None, **options):
    options = {"quiet": True, "cache": cache, "simulation_mode": True, **options}
    return tune_kernel("blur", source, size, ["no array"], SPACE, **options)


def test_neither_source_nor_arguments_language_nor_device_are_needed(cache):
    metrics = {"MHz": lambda p: p["core_freq"], "work": "tile / time"}
    observers = [NVMLObserver(["core_freq"])]
    results, env = simulate(
        cache, lang="OpenCL", metrics=metrics, observers=observers, answer=[np.ones(3)]
    )
    assert [each["time"] for each in results] == [4.0, 2.0, pytest.approx(4 / 3), 1.0]
    assert env["best_config"]["tile"] == 4
    assert (env["device_name"], env["simulation"]) == ("Some GPU", True)
    assert results[0]["MHz"] == 900.0
    assert (results[0]["timestamp"], results[0]["compile_time"]) == (STAMP, 250.0)


def test_what_a_cache_has_beside_times_may_be_the_objective(cache):
    _, env = simulate(cache, objective="compile_time")
    assert env["best_config"]["compile_time"] == 250.0
    with pytest.raises(AutotuneError, match=r"objective: expected one of time, .*core_freq"):
        simulate(cache, objective="nvml_power")


def test_a_cache_is_tuned_by_its_path_alone(cache):
    results, env = tune_cache(cache, restrictions=["tile % 2 == 0"], quiet=True)
    assert [each["tile"] for each in results] == [2, 4]
    assert env["best_config"]["tile"] == 4
    few, _ = tune_cache(cache, strategy="mls", strategy_options={"max_fevals": 3}, quiet=True)
    assert len(few) == 3


def test_a_cache_without_the_values_of_its_parameters_says_so(cache):
    held = json.loads(cache.read_text())
    del held["tune_params"]
    cache.write_text(json.dumps(held))
    with pytest.raises(AutotuneError, match="does not hold the values of its parameters"):
        tune_cache(cache)


@pytest.mark.parametrize(
    ("strategy", "options", "expected"),
    [
        (None, {}, 2000),
        ("brute_force", {}, 2000),
        (None, {"max_fevals": 30}, 30),
        ("random_sample", {}, 200),
        ("random_sample", {"fraction": 0.5}, 1000),
        ("random_sample", {"fraction": 0.5, "max_fevals": 7}, 7),
        ("mls", {}, 100),
        ("genetic_algorithm", {"popsize": 10, "maxiter": 5}, 50),
        ("genetic_algorithm", {}, 2000),
        ("pso", {"maxiter": 2}, 100),
        ("diff_evo", {}, 2000),
        ("diff_evo", {"maxiter": 2}, 32),
        ("bayes_opt", {"popsize": 5}, 2000),
    ],
)
def test_without_max_fevals_as_many_are_tried_as_in_kernel_tuner(strategy, options, expected):
    assert Choice(strategy, options, None).trials(2000) == expected


class Wanderer:
    def tune(self, searchspace, runner, tuning_options):
        raise AssertionError


@pytest.mark.parametrize(
    ("strategy", "options", "words"),
    [
        ("random_sample", {"fraction": 2}, "fraction to be a number from 0 to 1, got 2"),
        ("pso", {"popsize": 0}, "popsize to be a whole number from 1 on, got 0"),
        (Wanderer(), {}, "walks Kernel Tuner's Searchspace.*subclass of autotune.tuner.Tuner"),
        ("anealing", {}, "strategy: expected one of .*, got 'anealing'"),
    ],
)
def test_a_strategy_that_cannot_be_followed_says_why(strategy, options, words):
    with pytest.raises(AutotuneError, match=words):
        Choice(strategy, options, None).trials(100)


def test_a_time_limit_of_nothing_is_refused():
    with pytest.raises(AutotuneError, match="time_limit must be positive seconds, got 0"):
        _ = Choice(None, {"time_limit": 0}, None).seconds


def test_a_cache_is_named_without_its_ending_and_says_what_else_scripts_pass(cache):
    given = {"cache": cache, "simulation_mode": True, "kernel_string": "", "quiet": True}
    results, _ = tune_cache(cache.with_suffix(""), **given)
    assert len(results) == 4


def test_a_simulation_without_a_cache_says_so(cache):
    with pytest.raises(AutotuneError, match="results come from a cache: give cache="):
        simulate(None)
    with pytest.raises(AutotuneError, match=r"other\.json has no results: there is no file"):
        simulate(cache.with_name("other.json"))


def test_entries_without_a_time_are_told_as_failures_and_what_is_no_entry_is_logged(cache, caplog):
    held = json.loads(cache.read_text())
    entries = list(held["cache"].values())
    entries[1] |= {"time": float("nan"), "times": [float("nan")]}
    entries[2] |= {"time": "InvalidConfig", "error": "too many threads"}
    del entries[3]["tile"]
    cache.write_text(json.dumps(held))
    results, env = simulate(cache)
    assert [each["tile"] for each in results] == [1]
    assert {each["tile"]: each["error"] for each in env["failed"]} == {
        2: "a time of nan ms, which is none", 3: "too many threads",
    }  # fmt: skip
    assert "has 1 problem, such as: entry '4,900': it has no value of 'tile'" in caplog.text
