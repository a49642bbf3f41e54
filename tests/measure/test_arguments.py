import numpy as np
import pytest

import autotune.task as at
from autotune.errors import MeasureError
from autotune.measure import (
    LocalBuilder,
    LocalRunner,
    Pipeline,
    TimingPolicy,
    measure_option,
)
from tests.measure import kernels  # noqa: F401 - registers a template
from tests.trials import inputs_of


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (
            lambda: LocalRunner(timeout="x"),
            "timeout must be positive seconds, got 'x'",
        ),
        (lambda: LocalRunner(timeout=0), "timeout must be positive seconds, got 0"),
        (lambda: LocalRunner(number="a"), "LocalRunner: number must be a whole number.*, got 'a'"),
        (lambda: LocalRunner(repeat=0), "LocalRunner: repeat must be a whole number.*, got 0"),
        (lambda: LocalRunner(min_repeat_ms=-1), "LocalRunner: min_repeat_ms must be a number"),
        (lambda: LocalRunner(cooldown_interval=None), "cooldown_interval must be a number"),
        (lambda: LocalRunner(timing=TimingPolicy(number=0)), "number must be a whole number"),
        (lambda: LocalRunner(device=-1), "device must be a whole number of at least 0, got -1"),
        (lambda: LocalRunner(devices=0), "devices must be a list of numbers, got 0"),
        (lambda: LocalRunner(devices="01"), "devices must be a list of numbers, got '01'"),
        (lambda: LocalRunner(devices=[0.0]), "device must be a whole number.*, got 0.0"),
        (lambda: LocalRunner(devices=["a"]), "device must be a whole number.*, got 'a'"),
        (lambda: LocalRunner(devices=[0, -1]), "device must be a whole number.*, got -1"),
        (lambda: LocalRunner(devices=[]), r"devices must be distinct, and one at least, got \[\]"),
        (lambda: LocalRunner(devices=[1, 1]), "devices must be distinct"),
        (lambda: LocalRunner(memory_bytes=-5), "memory_bytes must be a whole number of at least"),
        (lambda: LocalRunner(memory_bytes="x"), "memory_bytes must be a whole number.*'x'"),
        (lambda: LocalRunner(seed="x"), "seed must be a whole number of at least 0, got 'x'"),
        (lambda: LocalBuilder(timeout=None), "LocalBuilder: timeout must be positive seconds"),
        (lambda: LocalBuilder(n_parallel=1.5), "n_parallel must be a whole number of at least 1"),
        (lambda: measure_option(1, "local"), "builder must be a Builder or 'local', got 1"),
        (lambda: measure_option("local", "remote"), "runner must be a Runner or 'local'"),
    ],
)
def test_a_wrong_argument_is_refused_by_name(make, message):
    with pytest.raises(MeasureError, match=message):
        make()


def test_devices_may_be_any_whole_numbers():
    runner = LocalRunner(devices=np.array([1, 0]))
    assert runner.devices == (1, 0)
    assert all(type(device) is int for device in runner.devices)
    assert LocalRunner(devices=range(2)).devices == (0, 1)


def test_arguments_override_what_a_policy_says_only_where_they_are_given():
    assert LocalRunner().options.timing == TimingPolicy(number=4, repeat=3, min_repeat_ms=0)
    policy = TimingPolicy(number=1, repeat=9, near=1.2)
    assert LocalRunner(timing=policy).options.timing == policy
    mixed = LocalRunner(repeat=5, timing=policy).options.timing
    assert mixed == TimingPolicy(number=1, repeat=5, near=1.2)


@pytest.mark.parametrize("timeout", [1e9, float("inf")])
def test_a_trial_may_take_for_ever(timeout):
    task = at.create("measure_test.scale", (64, 8), target="c")
    inputs = inputs_of(task, [0])
    builder = LocalBuilder(timeout, n_parallel=1, cache=False)
    with Pipeline(task, measure_option(builder, LocalRunner(timeout))) as pipeline:
        pipeline.submit(inputs)
        [(_, result)] = pipeline.next_results()
    assert result.ok, result.error_msg
