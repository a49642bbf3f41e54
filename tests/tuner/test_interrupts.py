"""What callbacks, and with them a log, have seen however a run ends."""

import signal
import threading
import time
from concurrent.futures import Future
from contextlib import contextmanager

import pytest

from autotune.errors import MeasureError
from autotune.record import load_from_file
from autotune.tuner import GridSearchTuner, callback
from tests.tuner.doubles import Empty, Stuck, loop_task, option


@pytest.fixture
def task():
    return loop_task()


@pytest.fixture
def log(tmp_path):
    return tmp_path / "log.json"


def logged(log):
    return [inp.config.index for inp, _ in load_from_file(log)] if log.exists() else []


@contextmanager
def ctrl_c_when(condition, most_s=10.0):
    """Press Ctrl-C in the block as soon as a condition holds, or at last when it never does."""
    over = threading.Event()

    def watch():
        deadline = time.monotonic() + most_s
        try:
            while not condition() and time.monotonic() < deadline and not over.wait(0.005):
                pass
        finally:  # nothing else ends the block
            if not over.is_set():
                signal.pthread_kill(threading.main_thread().ident, signal.SIGINT)

    thread = threading.Thread(target=watch)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join(most_s)


def test_an_interrupt_is_raised_again_with_a_complete_log(task, tmp_path):
    log = tmp_path / "log.json"
    delivered = []
    count = lambda tuner, inputs, results: delivered.extend(inputs)
    with pytest.raises(KeyboardInterrupt):
        GridSearchTuner(task).tune(
            60, option(stop_at=20), callbacks=[callback.log_to_file(log), count]
        )
    assert logged(log) == [inp.config.index for inp in delivered]


def test_a_callback_that_fails_does_not_cost_the_log_its_rows(task, tmp_path):
    def fail(tuner, inputs, results):
        raise OSError("no screen")

    log = tmp_path / "log.json"
    with pytest.raises(OSError, match="no screen"):
        GridSearchTuner(task).tune(9, option(), callbacks=[fail, callback.log_to_file(log)])
    assert len(list(load_from_file(log))) >= 1


def test_a_callback_that_raised_is_not_called_again_and_others_get_the_rest(task, log):
    failed, seen = [], []

    def fail(tuner, inputs, results):
        failed.append(len(inputs))
        deadline = time.monotonic() + 10
        while len(logged(log)) < 8 and time.monotonic() < deadline:
            time.sleep(0.005)
        raise OSError("no screen")

    watch = lambda tuner, inputs, results: seen.extend(i.config.index for i in inputs)
    with pytest.raises(OSError, match="no screen"):
        GridSearchTuner(task).tune(
            60,
            {"builder": Empty(), "runner": Stuck(held=[9])},
            callbacks=[fail, watch, callback.log_to_file(log)],
        )
    assert len(failed) == 1
    assert sorted(seen) == sorted(logged(log))
    assert len(seen) > failed[0]


@pytest.mark.parametrize(
    ("reproducible", "held", "ended"),
    [(False, [0], range(1, 12)), (False, [3], [0, 1, 2, *range(4, 15)]), (True, [15], range(15))],
    ids=["behind the oldest", "around one", "in a batch"],
)
def test_what_ended_is_logged_while_another_trial_is_under_way(
    task, log, reproducible, held, ended
):
    seen = []
    watch = lambda tuner, inputs, results: seen.extend(i.config.index for i in inputs)
    before = []
    all_logged = lambda: before.append(logged(log)) or len(before[-1]) == len(ended)
    with pytest.raises(KeyboardInterrupt), ctrl_c_when(all_logged):
        GridSearchTuner(task).tune(
            60,
            {"builder": Empty(), "runner": Stuck(held)},
            callbacks=[watch, callback.log_to_file(log)],
            reproducible=reproducible,
        )
    assert sorted(before[-1]) == logged(log) == seen == [*ended]


def test_an_interrupt_while_a_trial_is_told_of_in_this_thread_is_raised_at_once(task, log):
    """What ended before anybody asked is told of by whoever asks: the main thread."""

    class AtOnce(Stuck):
        def submit(self, measure_input, build_result):
            future = super().submit(measure_input, build_result)
            if measure_input.config.index:
                future.exception(10)
            return future

    class Built(Empty):
        def submit(self, measure_input):
            future = super().submit(measure_input)
            future.exception(10)
            return future

    def press(tuner, inputs, results):
        if threading.current_thread() is threading.main_thread():
            pressed.append(inputs[0].config.index)
            signal.raise_signal(signal.SIGINT)

    press.at_once = True
    pressed, seen = [], []
    watch = lambda tuner, inputs, results: seen.extend(i.config.index for i in inputs)
    with pytest.raises(KeyboardInterrupt), ctrl_c_when(lambda: False, most_s=30.0):
        GridSearchTuner(task).tune(
            60,
            {"builder": Built(), "runner": AtOnce(held=[0])},
            callbacks=[press, watch, callback.log_to_file(log)],
        )
    assert len(pressed) == 1
    assert logged(log) == seen == pressed


def test_an_interrupted_callback_is_called_to_its_end(task, log):
    seen = []

    def press(tuner, inputs, results):
        if not seen:
            signal.raise_signal(signal.SIGINT)
        seen.extend(inp.config.index for inp in inputs)

    with pytest.raises(KeyboardInterrupt):
        GridSearchTuner(task).tune(60, option(), callbacks=[press, callback.log_to_file(log)])
    assert seen
    assert sorted(seen) == sorted(logged(log))


@pytest.mark.parametrize("reproducible", [False, True])
def test_callbacks_see_what_a_tuner_is_about_to_learn(task, log, reproducible):
    seen, learned = [], []

    class Learning(GridSearchTuner):
        def update(self, inputs, results):
            indices = [inp.config.index for inp in inputs]
            assert set(indices) <= set(logged(log)) & set(seen)
            learned.append(indices)

    watch = lambda tuner, inputs, results: seen.extend(i.config.index for i in inputs)
    Learning(task).tune(
        48, option(), callbacks=[watch, callback.log_to_file(log)], reproducible=reproducible
    )
    assert [index for indices in learned for index in indices] == list(range(48))
    assert not reproducible or [len(indices) for indices in learned] == [16, 16, 16]


def test_what_ended_behind_another_is_kept_and_raced_when_a_run_stops_early(
    task, log, monkeypatch, caplog
):
    def race(field, trials, session, default):
        assert {4, 5} <= {inp.config.index for inp, _ in trials}
        raise MeasureError("the race was looked at only")

    monkeypatch.setattr("autotune.tuner.loop.final_race.finalists", lambda good, most: good[:2])
    monkeypatch.setattr("autotune.tuner.loop.final_race.race_finalists", race)
    monkeypatch.setattr("autotune.tuner.loop.run._GRACE_S", 0.05)
    runner, seen = Stuck(held=[3]), []
    runner.can_race = True

    def watch(tuner, inputs, results):
        deadline = time.monotonic() + 10
        while not {4, 5} <= set(runner.seen) and time.monotonic() < deadline:
            time.sleep(0.005)
        seen.extend(inp.config.index for inp in inputs)

    GridSearchTuner(task).tune(
        60,
        {"builder": Empty(), "runner": runner},
        callbacks=[watch, callback.log_to_file(log)],
        early_stopping=1,
    )
    assert {4, 5} <= set(seen)
    assert "the race was looked at only" in caplog.text
    assert sorted(logged(log)) == sorted(seen) == sorted(set(seen))


def test_one_trial_at_a_time_is_shown_as_soon_as_it_ends(task):
    class Threads(Stuck):
        def submit(self, measure_input, build_result):
            future = Future()
            end = lambda: future.set_result(self.run([measure_input], [build_result])[0])
            threading.Timer(0.02, end).start()
            return future

    class Keeper:
        at_once = True
        at_work = together = 0

        def __call__(self, tuner, inputs, results):
            self.at_work += 1
            time.sleep(0.01)
            self.together += self.at_work > 1
            self.at_work -= 1

    keeper = Keeper()
    GridSearchTuner(task).tune(30, {"builder": Empty(), "runner": Threads()}, callbacks=[keeper])
    assert keeper.together == 0
