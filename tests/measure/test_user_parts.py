"""Builders and runners of scripts: classes derived from ours with their own `build` or `run`."""

import math
import time

import numpy as np
import pytest

from autotune import SourceKernel, arg, create, get_config, measure_option, template
from autotune.measure import LocalBuilder, LocalRunner
from autotune.record import load_from_file
from autotune.task import TASK_TABLE
from autotune.tuner import GridSearchTuner, callback
from tests.trials import inputs_of

NAME = "tests.measure.user_parts"
SOURCE = "void fill(float *y) { for (int i = 0; i < 64; i++) y[i] = ONE; }\n"


@pytest.fixture
def task():
    @template(NAME)
    def fill():
        get_config().define_knob("k", [1, 2, 3, 4])
        args = [arg("y", (64,), role="out")]
        return SourceKernel("fill", SOURCE, args, defines={"ONE": 1})

    yield create(NAME, args=(), target="c")
    del TASK_TABLE[NAME]


class Builder(LocalBuilder):
    def __init__(self):
        super().__init__(n_parallel=1)
        self.seen = []

    def build(self, measure_inputs):
        self.seen += [inp.config.index for inp in measure_inputs]
        return super().build(measure_inputs)


class Runner(LocalRunner):
    """Says what it wants to count as a time."""

    def __init__(self, pause_s=0.0):
        super().__init__(number=1, repeat=1)
        self.seen, self.pause_s = [], pause_s

    def run(self, measure_inputs, build_results):
        time.sleep(self.pause_s)
        self.seen += [inp.config.index for inp in measure_inputs]
        results = super().run(measure_inputs, build_results)
        assert all(result.ok for result in results)
        return [
            result._replace(costs=(float(10 - inp.config.index),))
            for inp, result in zip(measure_inputs, results, strict=True)
        ]


def test_trials_go_through_the_build_and_run_of_a_script(task):
    builder, runner = Builder(), Runner()
    result = GridSearchTuner(task).tune(4, measure_option(builder, runner))
    assert (result.trials, result.failures) == (4, {})
    assert builder.seen == runner.seen == [0, 1, 2, 3]
    assert (result.best_config.index, result.seconds) == (3, 7.0)  # a race would say otherwise


class Clock(Runner):
    """Gives what it was told for the odd configurations."""

    def __init__(self, given):
        super().__init__()
        self.given = given

    def run(self, measure_inputs, build_results):
        results = super().run(measure_inputs, build_results)
        return [
            result._replace(costs=self.given) if inp.config.index % 2 else result
            for inp, result in zip(measure_inputs, results, strict=True)
        ]


@pytest.mark.parametrize(
    "given",
    [(math.nan,), (math.inf,), (-1.0,), (0.0,), (), ("soon",), (None,), (1.0, math.nan),
     (1e308, 1e308, 1e308)],
)  # fmt: skip
def test_a_runner_that_gives_no_times_has_failed_to_measure(task, tmp_path, given):
    log = tmp_path / "all.log"
    logged = [callback.log_to_file(log)]
    result = GridSearchTuner(task).tune(4, measure_option(Builder(), Clock(given)), None, logged)
    assert (result.seconds, result.failures) == (8.0, {"UNKNOWN_ERROR": 2})
    trials = list(load_from_file(log))  # all lines are records
    assert [r.error_no for _, r in trials] == [0, 8, 0, 8]
    assert trials[1][1].error_msg.startswith("the runner gave (")


@pytest.mark.parametrize("dtype", [np.float32, np.float64, int])
def test_times_of_a_runner_may_be_numbers_of_numpy(task, tmp_path, dtype):
    log = tmp_path / "all.log"
    runner = Clock((dtype(2),))
    result = GridSearchTuner(task).tune(
        4, measure_option(Builder(), runner), callbacks=[callback.log_to_file(log)]
    )
    assert (result.seconds, result.failures) == (2.0, {})
    assert [r.costs for _, r in load_from_file(log)] == [(10.0,), (2.0,), (8.0,), (2.0,)]


def test_what_a_script_had_at_work_when_time_was_up_is_no_trial(task):
    kept, runner = [], Runner(pause_s=0.3)
    keep = lambda tuner, inputs, results: kept.extend(results)
    started = time.monotonic()
    result = GridSearchTuner(task).tune(
        4, measure_option(Builder(), runner), callbacks=[keep], timeout_s=0.1
    )
    assert time.monotonic() - started < 9  # a batch is not waited for longer than its runs take
    assert result.failures == {}
    assert all(one.ok for one in kept)


def test_a_batch_handed_to_the_part_of_a_script_is_done_once(task):
    builder, runner = Builder(), Runner()
    try:
        inputs = inputs_of(task, (2, 0))
        runner.set_task(task)
        builder.set_task(task, runner.get_build_kwargs())
        results = runner.run(inputs, builder.build(inputs))
    finally:
        runner.close()
        builder.close()
    assert [r.costs for r in results] == [(8.0,), (10.0,)]
    assert builder.seen == runner.seen == [2, 0]
