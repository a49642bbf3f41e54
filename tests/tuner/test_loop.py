"""The loop: what it measures, keeps, prints, and how it ends."""

import io
import logging
import re

import numpy as np
import pytest

from autotune.errors import TunerError
from autotune.record import DummyDatabase, load_from_file
from autotune.task import TASK_TABLE, create, get_config, template
from autotune.tuner import GridSearchTuner, RandomTuner, Tuner, XGBTuner, callback
from tests.tuner.doubles import Counting, Empty, loop_task, option


@pytest.fixture
def task():
    return loop_task()


def test_the_fastest_configuration_is_kept(task):
    tuner = RandomTuner(task, seed=0)
    tuner.tune(60, option())
    assert (tuner.best_config["x"].val, tuner.best_config["y"].val) == (0, 1)
    assert tuner.best_flops == pytest.approx(1e9)
    inp, res = tuner.best_measure_pair
    assert inp.config is tuner.best_config
    assert res.costs == (1e-3,)


def test_no_more_than_n_trial_are_measured(task):
    measured = option()
    GridSearchTuner(task).tune(7, measured)
    assert measured["runner"].seen == list(range(7))


def test_results_reach_callbacks_in_order_of_submission(task):
    order = []
    watch = lambda tuner, inputs, results: order.extend(i.config.index for i in inputs)
    GridSearchTuner(task).tune(30, option(bad=range(0, 30, 3)), callbacks=[watch])
    assert order == list(range(30))


def test_a_run_ends_when_the_space_does(task):
    measured = option()
    RandomTuner(task, seed=1).tune(1000, measured)
    assert sorted(measured["runner"].seen) == list(range(60))


def test_early_stopping_counts_from_the_best(task, caplog):
    measured = option()
    caplog.set_level(logging.INFO, "autotvm")
    tuner = GridSearchTuner(task)  # the first trial is the best one
    tuner.tune(60, measured, early_stopping=10)
    assert 10 <= len(measured["runner"].seen) < 25
    assert "early stopping: the best is trial 1" in caplog.text


def test_a_time_limit_stops_the_run(task):
    tuner = RandomTuner(task, seed=1)
    tuner.tune(60, option(), timeout_s=0.0)
    assert tuner.best_config is None


def test_failures_are_summed_up_by_kind_and_first_line(task, caplog):
    tuner = GridSearchTuner(task)
    tuner.tune(40, option(bad=range(0, 40, 2)))
    assert "20 of 40 trials failed:\n     20  COMPILE_HOST: no compiler" in caplog.text
    assert tuner.best_config is not None


def test_failing_alike_from_the_start_stops_the_run(task, caplog):
    measured = option(bad=range(60))
    RandomTuner(task, seed=0).tune(60, measured, fail_fast=8)
    assert "trials all failed with the same message; fix that first" in caplog.text
    assert measured["runner"].seen == []
    assert re.search(r"Could not find any valid schedule for task .*loop", caplog.text)


def test_the_file_of_all_errors_holds_the_whole_text(task, caplog, tmp_path, monkeypatch):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    measured = {"builder": Empty(range(60), "line one\nline two"), "runner": Counting()}
    GridSearchTuner(task).tune(10, measured)
    (path,) = tmp_path.glob("autotune_errors_*.log")
    assert "10 x COMPILE_HOST\nline one\nline two" in path.read_text()


def test_trials_log_a_line_each_as_autotvm_does(task, caplog):
    caplog.set_level(logging.DEBUG, "autotvm")
    GridSearchTuner(task).tune(1, option())
    assert re.search(r"No: 1\tGFLOPS: 1\.00/1\.00\tresult: MeasureResult\(.*\)\t\[", caplog.text)


def test_monitor_keeps_scores_and_times(task):
    monitor = callback.Monitor()
    GridSearchTuner(task).tune(4, option(bad=[1]), callbacks=[monitor])
    np.testing.assert_allclose(monitor.trial_scores(), [1e9, 0, 1e9 / 3, 1e9 / 4])
    assert len(monitor.trial_timestamps()) == 4


def test_a_log_is_written_while_tuning_and_can_be_read(task, tmp_path):
    log = tmp_path / "log.json"
    GridSearchTuner(task).tune(12, option(), callbacks=[callback.log_to_file(log)])
    assert [inp.config.index for inp, _ in load_from_file(log)] == list(range(12))


def test_a_log_can_be_an_open_file(task):
    out = io.StringIO()
    GridSearchTuner(task).tune(3, option(), callbacks=[callback.log_to_file(out)])
    assert len(out.getvalue().splitlines()) == 3


def test_a_database_gets_every_trial(task):
    database = DummyDatabase()
    seen = []
    keep = lambda tuner, inputs, results: seen.extend(inputs)
    GridSearchTuner(task).tune(5, option(), callbacks=[callback.log_to_database(database), keep])
    assert all(database.load(inp) is not None for inp in seen)
    assert len(seen) == 5


def test_early_stopping_after_0_trials_means_never(task):
    measured = option()
    GridSearchTuner(task).tune(9, measured, early_stopping=0)
    assert len(measured["runner"].seen) == 9


def test_reproducible_runs_propose_the_same(task):
    def order():
        seen = []
        watch = lambda tuner, inputs, results: seen.extend(i.config.index for i in inputs)
        XGBTuner(task, seed=3).tune(48, option(), callbacks=[watch], reproducible=True)
        return seen

    assert order() == order()


def test_stop_at_a_fraction_of_the_ceiling(task):
    class Rated(Counting):
        def run(self, measure_inputs, build_results):
            return [
                r._replace(extra={"roofline": 1e-3 / r.mean})
                for r in super().run(measure_inputs, build_results)
            ]

    runner = Rated()
    GridSearchTuner(task).tune(60, {"builder": Empty(), "runner": runner}, stop_at=0.9)
    assert len(runner.seen) < 20


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"n_trial": 0}, "at least 1, got 0"),
        ({"n_trial": "5"}, "at least 1, got '5'"),
        ({"n_trial": 1, "early_stopping": -1}, r"early_stopping=.*at least 0, got -1"),
        ({"n_trial": 1, "callbacks": [3]}, r"expected a list of functions .* got \[3\]"),
        ({"n_trial": 1, "callbacks": print}, "expected a list of functions"),
        ({"n_trial": 1, "si_prefix": "Q"}, "si_prefix"),
        ({"n_trial": 1, "stop_at": 0}, "stop_at=.*from 0.01 to 1, got 0"),
        ({"n_trial": 1, "stop_at": 90}, "stop_at=.*from 0.01 to 1, got 90"),
        ({"n_trial": 1, "stop_at": "0.9"}, "stop_at=.*expected a number, got '0.9'"),
        ({"n_trial": 1, "timeout_s": -1}, "timeout_s=.*at least 0, got -1"),
        ({"n_trial": 1, "timeout_s": float("nan")}, "timeout_s=.*at least 0, got nan"),
        ({"n_trial": 1, "timeout_s": "5"}, "timeout_s=.*expected a number, got '5'"),
        ({"n_trial": 1, "fail_fast": -1}, "fail_fast=.*at least 0, got -1"),
        ({"n_trial": 1, "fail_fast": "x"}, "fail_fast=.*at least 0, got 'x'"),
    ],
)
def test_arguments_are_checked(task, arguments, words):
    with pytest.raises(TunerError, match=words):
        RandomTuner(task).tune(measure_option=option(), **arguments)


def test_a_fraction_of_an_unknown_ceiling_is_refused():
    @template("tests.tuner.no_ceiling")
    def no_ceiling():
        get_config().define_knob("x", [1, 2])
        get_config().add_flop(1e6)

    try:
        tuner = RandomTuner(create("tests.tuner.no_ceiling", (), "c"))
    finally:
        del TASK_TABLE["tests.tuner.no_ceiling"]
    with pytest.raises(TunerError, match=r"no_ceiling is not known; .* cfg.add_bytes"):
        tuner.tune(1, option(), stop_at=0.9)


@pytest.mark.parametrize("fail_fast", [0, None])
def test_no_number_of_equal_failures_stops_a_run_that_was_told_so(task, fail_fast):
    seen = []
    watch = lambda tuner, inputs, results: seen.extend(results)
    GridSearchTuner(task).tune(60, option(range(60)), callbacks=[watch], fail_fast=fail_fast)
    assert len(seen) == 60


@pytest.mark.parametrize("proposed", [[3], 3, None])
def test_a_tuner_that_proposes_no_configurations_is_told_so(task, proposed):
    class Indices(Tuner):
        def has_next(self):
            return True

        def next_batch(self, batch_size):
            return proposed

    with pytest.raises(TunerError, match=r"Indices.next_batch\(\) must return a list of config"):
        Indices(task).tune(3, option())


def test_a_tuner_written_for_autotvm_works(task):
    class Backwards(Tuner):
        def __init__(self, task):
            super().__init__(task)
            self.left = list(range(60))

        def has_next(self):
            return bool(self.left)

        def next_batch(self, batch_size):
            return [
                self.space.get(self.left.pop()) for _ in range(min(batch_size, len(self.left)))
            ]

    tuner = Backwards(task)
    tuner.tune(60, option())
    assert tuner.best_config.index == 0
