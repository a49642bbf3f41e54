"""Resuming: what an earlier run measured is learned from and not measured again."""

import pytest

from autotune.errors import TunerError
from autotune.measure import MeasureErrorNo, MeasureInput, MeasureResult
from autotune.record import compact, encode, load_from_file
from autotune.task import TASK_TABLE, create, get_config, template
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


def test_a_folder_without_a_log_yet_is_an_empty_log(task, tmp_path):
    folder = tmp_path / "logs"
    folder.mkdir()
    for known in (0, 2):
        result = GridSearchTuner(task).tune(
            2, option(), callbacks=[callback.log_to_file(f"{folder}/")], resume=f"{folder}/"
        )
        assert (result.trials, result.resumed) == (2, known)


def test_resuming_a_finished_run_measures_nothing(task):
    pairs = []
    keep = lambda tuner, inputs, results: pairs.extend(zip(inputs, results, strict=True))
    GridSearchTuner(task).tune(9, option(), callbacks=[keep])
    measured = option()
    tuner = GridSearchTuner(task)
    tuner.tune(9, measured, resume=pairs)
    assert measured["runner"].seen == []
    assert tuner.best_config.index == 0


def trial(task, index, seconds, **extra):
    """Return a record; of a failed trial when there is no time."""
    inp = MeasureInput(task.target, task, task.config_space.get(index))
    if seconds is None:
        return inp, MeasureResult((), MeasureErrorNo.COMPILE_HOST, 0.1, 1.0, "no room", extra)
    return inp, MeasureResult((seconds,), 0, 0.1, 1.0, "", extra)


def resumed(task, records, n_trial=9, **kwargs):
    measured = option()
    tuner = GridSearchTuner(task)
    tuner.tune(n_trial, measured, resume=records, **kwargs)
    return tuner, measured["runner"].seen


class Watched(GridSearchTuner):
    """Notes what is learned, and when something is proposed."""

    def __init__(self, task):
        super().__init__(task)
        self.calls = []

    def update(self, inputs, results):
        self.calls.append([(i.config.index, r.mean) for i, r in zip(inputs, results, strict=True)])
        super().update(inputs, results)

    def next_batch(self, batch_size):
        self.calls.append("proposed")
        return super().next_batch(batch_size)


def test_a_resumed_tuner_learns_before_it_proposes(task):
    tuner = Watched(task)
    records = [trial(task, 5, 0.5), trial(task, 3, 0.3), trial(task, 4, None)]
    tuner.tune(9, option(), resume=records)
    assert tuner.calls[:2] == [[(5, 0.5), (3, 0.3), (4, float("inf"))], "proposed"]


def test_a_configuration_that_means_something_else_now_is_measured_again(caplog):
    values = [1, 2, 4, 8]

    @template("tests.tuner.changing")
    def changing():
        config = get_config()
        config.define_knob("x", list(values))
        config.define_knob("y", [1])

    try:
        old = create("tests.tuner.changing", (), "c")
        records = [trial(old, index, 0.1) for index in range(4)]
        values[2:] = [5]
        tuner, seen = resumed(create("tests.tuner.changing", (), "c"), records, 3)
    finally:
        del TASK_TABLE["tests.tuner.changing"]
    assert (tuner.resumed, seen) == (2, [2])
    assert "resume: of tests.tuner.changing, 2 records are not in its space" in caplog.text


def test_a_race_between_points_that_moved_counts_no_more_and_their_trials_do():
    values = [1, 2, 4]

    @template("tests.tuner.moving")
    def moving():
        get_config().define_knob("x", list(values))

    try:
        old = create("tests.tuner.moving", (), "c")
        race = {"tied": [0], "candidates": [{"index": 0}, {"index": 1}]}
        records = [trial(old, 0, 1e-6), trial(old, 1, 2e-6), trial(old, 0, 1e-7, race=race)]
        values.reverse()
        tuner, _ = resumed(create("tests.tuner.moving", (), "c"), records, 2)
    finally:
        del TASK_TABLE["tests.tuner.moving"]
    assert tuner.best_config["x"].val == 1
    assert tuner.result.seconds == 1e-6


def test_a_configuration_counts_once_however_often_it_was_measured(task):
    records = [trial(task, 1, 0.3), trial(task, 0, 0.2), trial(task, 1, 0.1), trial(task, 0, 0.4)]
    tuner, seen = resumed(task, records, 4)
    assert (tuner.resumed, seen) == (2, [2, 3])


@pytest.mark.parametrize("order", [[None, 1e-6], [1e-6, None]])
def test_a_time_counts_more_than_a_failure_of_the_same_configuration(task, order):
    tuner = Watched(task)
    tuner.tune(1, option(), resume=[trial(task, 7, seconds) for seconds in order])
    assert tuner.best_config.index == 7
    assert tuner.calls == [[(7, 1e-6)]]


def test_failures_are_measured_again_only_when_asked_to(task):
    records = [trial(task, 0, None), trial(task, 1, 1.0), trial(task, 2, None)]
    assert resumed(task, records, 5)[1] == [3, 4]
    assert resumed(task, records, 5, retry=True)[1] == [0, 2, 3, 4]


def raced(task, tmp_path, *later):
    """Return a log in which trial 1 won the race against trial 0, whose time is a lucky one."""
    log = tmp_path / "log.json"
    race = {"tied": [1], "candidates": [{"index": 0}, {"index": 1}]}
    rows = [encode(*trial(task, 0, 1e-5)), encode(*trial(task, 1, 1.1e-5))]
    rows += ["# race " + encode(*trial(task, 1, 1.2e-5, race=race))]
    rows += [encode(*pair) for pair in later]
    log.write_text("\n".join(rows) + "\n")
    return log


def test_the_winner_of_a_race_stays_the_best(task, tmp_path):
    tuner, seen = resumed(task, raced(task, tmp_path), 4)
    assert tuner.best_config.index == 1
    assert (tuner.resumed, seen) == (2, [2, 3])  # the race was no trial


def test_a_default_that_wins_the_race_is_none_of_the_trials(task, tmp_path):
    race = {"tied": [7], "candidates": [{"index": 0}, {"index": 7}], "default": 7}
    rows = [encode(*trial(task, index, 1e-5)) for index in (0, 1)]
    rows += ["# race " + encode(*trial(task, 7, 0.9e-5, race=race))]
    log = tmp_path / "log.json"
    log.write_text("\n".join(rows) + "\n")
    tuner, seen = resumed(task, log, 2)
    assert (tuner.best_config.index, tuner.resumed, seen) == (7, 2, [])


def test_times_of_trials_are_learned_not_those_of_a_race(task, tmp_path):
    tuner = Watched(task)
    tuner.tune(2, option(), resume=raced(task, tmp_path))
    assert tuner.calls == [[(0, 1e-5), (1, 1.1e-5)]]


def test_a_later_trial_that_is_faster_beats_the_winner_of_a_race(task, tmp_path):
    log = raced(task, tmp_path, trial(task, 2, 1.15e-5))
    assert resumed(task, log, 3)[0].best_config.index == 2


def test_a_compacted_log_keeps_the_winner_and_all_trials(task, tmp_path):
    log = raced(task, tmp_path)
    compact(log)
    tuner, seen = resumed(task, log, 4)
    assert tuner.best_config.index == 1
    assert (tuner.resumed, seen) == (2, [2, 3])


def test_what_is_no_log_is_refused(task):
    with pytest.raises(TunerError, match=r"expected the path of a log or pairs .* got 5"):
        resumed(task, 5)
