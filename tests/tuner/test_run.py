"""A run drives a strategy: what it asks of one, how it stops, who is told, and many in turns."""

import threading
from concurrent.futures import Future
from types import SimpleNamespace

import pytest

from autotune.errors import TunerError
from autotune.kernel import SourceKernel, arg
from autotune.measure import MeasureErrorNo, Session
from autotune.task import create, get_config, template
from autotune.tuner import Callback, GridSearchTuner, RandomTuner, Run, Stop
from autotune.tuner.loop.stop import RunProgress
from autotune.tuner.loop.watchers import Watchers
from tests.tuner.doubles import Counting, Empty, Stuck, loop_task


class Listed:
    """A strategy that is no tuner: proposes given points, in order."""

    def __init__(self, task, indices):
        self.left = [task.config_space.get(index) for index in indices]
        self.told = []

    @property
    def exhausted(self):
        return not self.left

    def ask(self, n):
        asked, self.left = self.left[:n], self.left[n:]
        return asked

    def tell(self, trials):
        self.told += [(inp.key, result.error_no) for inp, result in trials]


@pytest.fixture
def task():
    return loop_task()


@pytest.fixture
def session():
    with Session(Empty(bad=[3]), Counting()) as session:
        yield session


def test_anything_that_asks_and_tells_can_be_run(task, session):
    strategy = Listed(task, [5, 3, 0, 9])
    run = Run(strategy, task, Stop(n_trial=20, finalists=0))
    result = run.run(session)
    assert strategy.told == [("5", 0), ("3", MeasureErrorNo.COMPILE_HOST), ("0", 0), ("9", 0)]
    assert result.best_config.index == 0
    assert (result.trials, result.stop_reason) == (4, "the space is exhausted")


def test_runs_take_turns_on_a_session_and_end_as_each_alone(session):
    tasks = [loop_task(20), loop_task(10)]
    stop = Stop(n_trial=24, finalists=0)
    alone = [RandomTuner(task, seed=1).new_run(stop).run(session) for task in tasks]
    runs = [RandomTuner(task, seed=1).new_run(stop) for task in tasks]
    turns = []
    while any(advanced := [len(run.advance(session, 7)) for run in runs]):
        turns.append(advanced)
    results = [run.finish(session) for run in runs]
    assert turns == [[7, 7], [7, 7], [7, 7], [3, 3]]
    assert [r.trials for r in results] == [24, 24]
    assert [r.best_config for r in results] == [r.best_config for r in alone]
    assert [r.failures for r in results] == [r.failures for r in alone]


def test_what_a_turn_leaves_is_measured_in_the_next(task, session):
    tuner = GridSearchTuner(task)
    run = tuner.new_run(Stop(n_trial=60, early_stopping=1, finalists=0))
    seen = [inp.key for inp, _ in run.advance(session, 20)]
    assert run.advance(session, 20) == []
    result = run.finish(session)
    assert "early stopping" in result.stop_reason
    assert result.trials == len(seen) > 0
    again = [config.key for config in tuner.cut_off]
    assert sorted(map(int, seen + again)) == list(range(len(seen) + len(again)))
    more = tuner.new_run(Stop(n_trial=60, finalists=0)).advance(session, 20)
    assert [inp.key for inp, _ in more][: len(again)] == again


def test_a_turn_ends_when_its_time_is_over_whatever_is_under_way(task):
    stuck = Stuck(held=[3])
    with Session(Empty(), stuck) as session:
        run = GridSearchTuner(task).new_run(Stop(n_trial=8, finalists=0))
        seen = [inp.config.index for inp, _ in run.advance(session, 8, timeout_s=0.2)]
        assert 3 not in seen
        assert not run.over
        assert run.advance(session, 8, timeout_s=0) == []
        assert not run.over
        stuck.held = ()
        more = [inp.config.index for inp, _ in run.advance(session, 8)]
    assert 3 in more
    assert sorted(seen + more) == list(range(8))
    assert run.over


def test_a_scoreboard_is_what_the_tuner_shows(task, session):
    tuner = GridSearchTuner(task)
    result = tuner.tune(10, session, finalists=0, timeout_s=600)
    assert tuner.result is result is tuner.scoreboard.result
    assert 0 < tuner.time_left_s <= 600
    assert tuner.best_config == result.best_config
    assert tuner.best_measure_pair[0].config == tuner.best_config
    tuner.best_flops = 7.0
    assert tuner.scoreboard.best_flops == 7.0
    tuner.reset()
    assert tuner.best_config is tuner.best_measure_pair is None
    assert tuner.ttl is tuner.scoreboard.most_trials is tuner.time_left_s is None


@pytest.mark.parametrize(
    ("stop", "state", "reason"),
    [
        (Stop(10), RunProgress(5), ""),
        (Stop(10, early_stopping=3), RunProgress(5, best_iter=3), ""),
        (Stop(10, early_stopping=3), RunProgress(6, best_iter=3), "early stopping: the best is"),
        (Stop(10, early_stopping=0), RunProgress(9), ""),
        (Stop(10, timeout_s=2), RunProgress(1, elapsed_s=1.9), ""),
        (Stop(10, timeout_s=2), RunProgress(1, elapsed_s=2), "the time of 2 s is used up"),
        (Stop(10, timeout_s=2), RunProgress(1, elapsed_s=2.5), "the time of 2 s is used up"),
        (Stop(10, stop_at=0.5), RunProgress(1, fraction=0.49), ""),
        (Stop(10, stop_at=0.5), RunProgress(1, fraction=0.5), "reaches 50% of the device's"),
        (
            Stop(10, stop_at=0.5),
            RunProgress(1, fraction=0.6),
            "reaches 60% of the device's ceiling",
        ),
        (Stop(50, fail_fast=4), RunProgress(3, alike=3), ""),
        (Stop(50, fail_fast=4), RunProgress(4, alike=4), "the first 4 trials all failed"),
        (Stop(50, fail_fast=0), RunProgress(4, alike=4), ""),
    ],
)
def test_a_stop_says_why(stop, state, reason):
    assert reason in stop.reason(state)
    assert bool(stop.reason(state)) == bool(reason)


@pytest.mark.many_cases
@pytest.mark.parametrize(
    "fields",
    [
        {"n_trial": 0},
        {"n_trial": True},
        {"n_trial": 5, "stop_at": 2},
        {"n_trial": 5, "timeout_s": True},
        {"n_trial": 5, "finalists": -1},
    ],
)
def test_a_stop_that_makes_no_sense_is_refused(fields):
    with pytest.raises(TunerError, match=r"expected a (whole )?number"):
        Stop(**fields)


class Diary(Callback):
    """Notes all it is told, and in which thread."""

    def __init__(self):
        self.told, self.threads = [], set()

    def tuning(self, tuner):
        self.told.append("tuning")

    def trial_ended(self, tuner, measure_input, result):
        self.threads.add(threading.current_thread().name)
        self.told.append(("ended", measure_input.key))

    def __call__(self, tuner, inputs, results):
        self.told += [("in turn", inp.key) for inp in inputs]

    def raced(self, tuner, measure_input, result):
        self.told.append(("raced", result.evidence.race.keys))

    def tuned(self, tuner, result):
        self.told.append("tuned")


def test_a_callback_is_told_of_each_event_and_functions_will_do(task, session):
    diary, plain = Diary(), []
    GridSearchTuner(task).tune(
        4, session, callbacks=[diary, lambda t, i, r: plain.extend(i)], finalists=0
    )
    told = diary.told
    assert (told[0], told[-1]) == ("tuning", "tuned")
    for event in ("ended", "in turn"):
        assert sorted(e[1] for e in told if e[0] == event) == ["0", "1", "2", "3"]
    for key in "0123":
        assert told.index(("ended", key)) < told.index(("in turn", key))
    assert [inp.key for inp in plain] == ["0", "1", "2", "3"]


def test_one_callback_that_fails_keeps_no_other_from_being_told(task):
    told = []

    def fail(*_):
        raise OSError("no space left")

    class AtOnce(Callback):
        def trial_ended(self, tuner, measure_input, result):
            told.append("at once")

    watchers = Watchers(None, [fail, lambda *_: told.append("in turn"), AtOnce()])
    watchers.trial_ended(None, None)
    with pytest.raises(OSError, match="no space left"):
        watchers.in_turn([(None, None)])
    assert told == ["at once", "in turn"]


def test_a_base_callback_shows_no_result():
    assert not Watchers(None, [Callback()]).show_results
    assert Watchers(None, [Diary()]).show_results


def test_a_default_is_no_part_of_a_strategy(task, session):
    run = Run(Listed(task, [1]), task, Stop(n_trial=5))
    assert run.run(session).best_config.index == 1
    assert task.default() is not None


class Later(Counting):
    """Runs trials in threads, so many seconds each; of some, no device ever begins.

    The time of the run is up as soon as it has been handed the trial `last`.
    """

    can_race = True

    def __init__(self, monkeypatch, seconds, last, waiting=()):
        super().__init__()
        self.seconds, self.last, self.waiting, self.now = seconds, last, waiting, 0.0
        clock = SimpleNamespace(monotonic=lambda: self.now)
        monkeypatch.setattr("autotune.tuner.loop.clock.time", clock)

    def submit(self, measure_input, build_result):
        future, index = self.begin(measure_input, build_result), measure_input.config.index
        if index == self.last:
            self.now = 1e9
        return future

    def begin(self, measure_input, build_result):
        future, index = Future(), measure_input.config.index
        if index in self.waiting:
            return future
        end = lambda: future.set_result(self.run([measure_input], [build_result])[0])
        if index not in self.seconds:
            end()
        elif future.set_running_or_notify_cancel():
            timer = threading.Timer(self.seconds[index], end)
            timer.daemon = True
            timer.start()
        return future


def test_a_trial_that_ends_while_the_run_does_takes_part_in_the_race(task, monkeypatch):
    diary = Diary()
    # The second is as fast as the first, and ends when the time of the run is over.
    stop, watchers = Stop(n_trial=9, timeout_s=0.2), Watchers(None, [diary])
    run = Run(Listed(task, [20, 1]), task, stop, watchers=watchers)
    result = run.run({"builder": Empty(), "runner": Later(monkeypatch, {1: 0.2}, last=1)})
    assert (result.trials, result.stop_reason) == (2, "the time of 0.2 s is used up")
    assert ("ended", "1") in diary.told
    assert ("in turn", "1") in diary.told
    (raced,) = (event[1] for event in diary.told if event[0] == "raced")
    assert {"20", "1"} <= raced


def test_what_no_device_is_at_work_on_is_cut_off_before_the_race(task, monkeypatch):
    monkeypatch.setattr("autotune.tuner.loop.run._GRACE_S", 0.1)
    runner = Later(monkeypatch, {2: 30.0}, last=0, waiting=[0])
    runner.timeout = 0.2
    run = Run(Listed(task, [5, 2, 0]), task, Stop(n_trial=9, timeout_s=0.1))
    result = run.run({"builder": Empty(), "runner": runner})
    assert result.trials == 1
    assert [one.key for one in run.scoreboard.cut_off] == ["2", "0"]


def test_a_run_without_a_measure_option_measures_on_this_machine():
    @template("tests.run.local")
    def twice(n):
        get_config().define_knob("step", [1])
        args = [arg("x", (n,)), arg("y", (n,), role="out")]
        text = "void f(const float *x, float *y) { for (int i = 0; i < 8; i++) y[i] = 2 * x[i]; }"
        return SourceKernel("f", text, args, reference=lambda x: 2 * x)

    result = GridSearchTuner(create("tests.run.local", (8,), "llvm")).tune(1)
    assert (result.trials, result.failures) == (1, {})
