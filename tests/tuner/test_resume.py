"""Resuming: what an earlier run measured is learned from and not measured again."""

import pytest

from autotune.record import load_from_file
from autotune.task import create
from autotune.tuner import GridSearchTuner, RandomTuner, XGBTuner, callback
from tests.tuner.doubles import loop_task, option


@pytest.fixture
def task():
    return loop_task()


@pytest.mark.parametrize("make", [RandomTuner, GridSearchTuner, XGBTuner])
def test_a_resumed_run_measures_nothing_twice(make, task, tmp_path):
    log = tmp_path / "log.json"
    make(task, seed=0).tune(25, option(), callbacks=[callback.log_to_file(log)], resume=log)
    second = option()
    tuner = make(task, seed=0)
    tuner.tune(45, second, callbacks=[callback.log_to_file(log)], resume=log)
    indices = [inp.config.index for inp, _ in load_from_file(log)]
    assert len(indices) == len(set(indices)) == 45
    assert len(second["runner"].seen) == 20
    best = min(load_from_file(log), key=lambda pair: pair[1].mean)
    assert tuner.best_config.index == best[0].config.index


def test_resuming_ignores_records_of_other_tasks(task, tmp_path):
    log = tmp_path / "log.json"
    other = create("tests.tuner.loop", (5,), "c")
    GridSearchTuner(other).tune(9, option(), callbacks=[callback.log_to_file(log)])
    measured = option()
    GridSearchTuner(task).tune(9, measured, resume=log)
    assert measured["runner"].seen == list(range(9))


def test_resuming_a_finished_run_measures_nothing(task):
    pairs = []
    keep = lambda tuner, inputs, results: pairs.extend(zip(inputs, results, strict=True))
    GridSearchTuner(task).tune(9, option(), callbacks=[keep])
    measured = option()
    tuner = GridSearchTuner(task)
    tuner.tune(9, measured, resume=pairs)
    assert measured["runner"].seen == []
    assert tuner.best_config.index == 0
