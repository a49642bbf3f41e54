"""What a run says of itself at its end, however it ends."""

import logging
import math

import pytest

from autotune.errors import TunerError
from autotune.record import open_database
from autotune.task import create, get_config, template
from autotune.tuner import GridSearchTuner, RandomTuner, TuneResult, callback
from tests.tuner.doubles import Counting, Empty, loop_task, option


@pytest.fixture
def task():
    return loop_task()


def test_tune_returns_what_it_found(task, tmp_path):
    log = tmp_path / "log.json"
    tuner = GridSearchTuner(task)
    result = tuner.tune(
        30, option(bad=range(3, 30, 3)), callbacks=[callback.log_to_file(log)], fail_fast=None
    )
    assert isinstance(result, TuneResult)
    assert tuner.result is result
    assert result.best_config is tuner.best_config
    assert result.seconds == pytest.approx(1e-3)
    assert result.flops == pytest.approx(tuner.best_flops)
    assert (result.trials, result.resumed) == (30, 0)
    assert result.failures == {"COMPILE_HOST": 9}
    assert result.stop_reason == "all 30 trials were made"
    assert result.log == log


def test_a_notebook_shows_the_summary_of_a_result(task):
    shown = []

    class Printer:
        text = staticmethod(shown.append)

    result = GridSearchTuner(task).tune(2, option())
    result._repr_pretty_(Printer(), cycle=False)
    assert shown == [str(result)]


@pytest.mark.parametrize("place", ["logs/", "sqlite:///trials.db", "stream", "database"])
def test_the_summary_says_where_trials_are_kept_wherever_that_is(
    task, tmp_path, monkeypatch, place
):
    monkeypatch.chdir(tmp_path)
    with (tmp_path / "stream").open("a") as stream:
        kept = {
            "stream": callback.log_to_file(stream),
            "database": callback.log_to_database(open_database("x.log")),
        }.get(place) or callback.log_to_file(place)
        result = GridSearchTuner(task).tune(1, option(), callbacks=[kept])
    name = {"stream": str(tmp_path / "stream"), "database": "x.log"}.get(place, place)
    assert str(result.log) == name
    assert f"  log      {name}" in str(result).splitlines()


def test_the_result_is_frozen(task):
    result = GridSearchTuner(task).tune(1, option())
    with pytest.raises(AttributeError):
        result.seconds = 0.0


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        ({"n_trial": 1000}, "the space is exhausted"),
        ({"n_trial": 60, "early_stopping": 10}, "early stopping: the best is trial 1"),
        ({"n_trial": 60, "timeout_s": 0.0}, "the time of 0 s is used up"),
    ],
)
def test_why_it_stopped_is_said(task, arguments, reason, caplog):
    caplog.set_level(logging.INFO, "autotvm")
    result = GridSearchTuner(task).tune(measure_option=option(), **arguments)
    assert result.stop_reason == reason
    assert f"stopped  {reason}" in caplog.text


def test_without_callbacks_the_summary_is_logged_at_info(task, caplog):
    caplog.set_level(logging.INFO, "autotvm")
    result = GridSearchTuner(task).tune(7, option(bad=[2, 5]))
    (said,) = [r.getMessage() for r in caplog.records if r.levelno == logging.INFO]
    assert str(result) in said
    for words in (
        "tests.tuner.loop (20,) on c",
        "7 in ",
        "2 failed (2 COMPILE_HOST)",
        "best     1000.0 us, 1.00 GFLOPS",
        "x=0, y=1 (index 0)",
        "none; keep trials with callback.log_to_file",
    ):
        assert words in said


def test_a_run_in_which_nothing_worked_says_so(task):
    result = GridSearchTuner(task).tune(5, option(bad=range(60)))
    assert (result.best_config, result.seconds, result.flops) == (None, math.inf, None)
    assert "none: no trial succeeded" in str(result)
    assert result.failures == {"COMPILE_HOST": 5}


def test_after_ctrl_c_the_summary_is_right(task, caplog, tmp_path):
    caplog.set_level(logging.INFO, "autotvm")
    log = tmp_path / "log.json"
    tuner = GridSearchTuner(task)
    with pytest.raises(KeyboardInterrupt):
        tuner.tune(60, option(stop_at=20), callbacks=[callback.log_to_file(log)])
    result = tuner.result
    assert result.stop_reason == "interrupted; continue with resume="
    assert result.trials == len(log.read_text().splitlines())
    assert 0 < result.trials < 60
    assert result.seconds == pytest.approx(1e-3)
    assert "stopped  interrupted; continue with resume=" in caplog.text


@pytest.mark.parametrize("logs", [True, False])
def test_after_ctrl_c_only_a_log_is_what_can_be_continued(task, caplog, tmp_path, logs):
    caplog.set_level(logging.INFO, "autotvm")
    callbacks = [lambda *_: None, *[callback.log_to_file(tmp_path / "log.json")] * logs]
    tuner = GridSearchTuner(task)
    with pytest.raises(KeyboardInterrupt):
        tuner.tune(60, option(stop_at=20), callbacks=callbacks)
    assert tuner.result.stop_reason.startswith("interrupted")
    assert ("resume=" in caplog.text) == ("log is complete" in caplog.text) == logs


def test_when_a_callback_raises_the_summary_says_what(task):
    def fail(*_):
        raise OSError("no room\nand more")

    tuner = GridSearchTuner(task)
    with pytest.raises(OSError, match="no room"):
        tuner.tune(9, option(), callbacks=[fail])
    assert tuner.result.stop_reason == "OSError: no room"
    assert tuner.result.trials >= 1


def test_a_callback_that_fails_to_begin_leaves_a_result_and_the_others_hear_of_the_end(task):
    class Watch:
        heard = None

        def __call__(self, *_):
            pass

        def tuned(self, tuner, result):
            self.heard = result

    class Broken(Watch):
        def tuning(self, tuner):
            raise OSError("no terminal")

    tuner, watch = GridSearchTuner(task), Watch()
    with pytest.raises(OSError, match="no terminal"):
        tuner.tune(9, option(), callbacks=[watch, Broken()])
    assert watch.heard is tuner.result
    assert tuner.result.stop_reason == "OSError: no terminal"


def test_a_resumed_run_counts_what_was_there(task, tmp_path):
    log = tmp_path / "log.json"
    GridSearchTuner(task).tune(5, option(), callbacks=[callback.log_to_file(log)])
    result = GridSearchTuner(task).tune(8, option(), resume=log)
    assert (result.trials, result.resumed) == (8, 5)
    assert "5 of them taken over from an earlier run" in str(result)


def test_a_result_is_told_to_callbacks_that_ask_for_it(task):
    class Listener:
        def __init__(self):
            self.told = []

        def __call__(self, *_):
            pass

        def tuning(self, tuner):
            self.told.append("tuning")

        def tuned(self, tuner, result):
            self.told.append(result)

    class Unrelated:
        tuned, path = "attributes of the user's own", "and another"

        def __call__(self, *_):
            pass

    listener = Listener()
    result = GridSearchTuner(task).tune(3, option(), callbacks=[Unrelated(), listener])
    assert listener.told[0] == "tuning"
    assert listener.told[1].trials == result.trials == 3
    assert result.log is None


@template("tests/result/no_flop")
def no_flop(n):
    get_config().define_knob("x", list(range(n)))
    get_config().define_knob("y", [1])


def test_without_operations_no_rate_is_made_up():
    result = GridSearchTuner(create("tests/result/no_flop", (4,), "c")).tune(4, option())
    assert result.flops is None
    assert "FLOPS" not in str(result)
    assert "1000.0 us" in str(result)


def test_a_refused_argument_leaves_no_result(task):
    tuner = RandomTuner(task)
    with pytest.raises(TunerError):
        tuner.tune(0, {"builder": Empty(), "runner": Counting()})
    assert tuner.result is None


# ---- a busy host


class Disturbed(Counting):
    """A runner that saw others at work."""

    host_note = "the host is busy: for a test"


def test_a_busy_host_is_spoken_of_once(task, caplog):
    busy = {"builder": Empty(), "runner": Disturbed()}
    result = GridSearchTuner(task).tune(3, busy)
    assert result.notes == ("the host is busy: for a test",)
    assert caplog.text.count("the host is busy") == 1
    caplog.clear()
    caplog.set_level(logging.INFO, "autotvm")
    GridSearchTuner(task).tune(3, busy)
    assert caplog.text.count("the host is busy") == 1
