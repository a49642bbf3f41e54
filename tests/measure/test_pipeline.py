"""The pipeline: overlap, order, barrier, and who may fail how."""

import threading
import time
from concurrent.futures import Future

import pytest

import autotune.task as at
from autotune.errors import MeasureError
from autotune.measure import (
    MeasureErrorNo,
    MeasureResult,
    Pipeline,
    Runner,
    measure_option,
)
from tests.measure import kernels  # noqa: F401 - registers the templates
from tests.measure.doubles import PlainBuilder, PlainRunner
from tests.trials import drained, inputs_of


@pytest.fixture
def task():
    return at.create("measure_test.scale", (64, 64), target="c")


def test_results_come_in_the_order_of_submission(task):
    option = measure_option(PlainBuilder(n_parallel=3), PlainRunner())
    order = [5, 2, 9, 1, 0, 7, 3]
    with Pipeline(task, option) as pipeline:
        pipeline.submit(inputs_of(task, order))
        pairs = drained(pipeline)
    assert [inp.config.index for inp, _ in pairs] == order
    assert [round(res.mean * 1e3) - 1 for _, res in pairs] == order


def test_building_overlaps_running_for_script_builders_too(task):
    """Each trial runs only while the next is built."""
    both = threading.Barrier(2, timeout=30)

    class Building(PlainBuilder):
        def build(self, measure_inputs):
            if measure_inputs[0].config.index > 0:
                both.wait()
            return super().build(measure_inputs)

    class Running(PlainRunner):
        def run(self, measure_inputs, build_results):
            if measure_inputs[0].config.index < 11:
                both.wait()
            return super().run(measure_inputs, build_results)

    with Pipeline(task, measure_option(Building(n_parallel=1), Running())) as pipeline:
        pipeline.submit(inputs_of(task, range(12)))
        assert indices(drained(pipeline)) == list(range(12))


def test_a_batch_of_a_script_builder_is_never_larger_than_n_parallel(task):
    submitted = threading.Event()

    class Waiting(PlainBuilder):
        def build(self, measure_inputs):
            assert submitted.wait(30)
            return super().build(measure_inputs)

    builder = Waiting(n_parallel=3)
    with Pipeline(task, measure_option(builder, PlainRunner())) as pipeline:
        pipeline.submit(inputs_of(task, range(10)))
        submitted.set()
        drained(pipeline)
    assert max(map(len, builder.batches)) == 3
    assert [index for batch in builder.batches for index in batch] == list(range(10))


def test_reproducible_means_whole_batches(task):
    option = measure_option(PlainBuilder(n_parallel=2, delay_s=0.01), PlainRunner())
    with Pipeline(task, option, reproducible=True, batch_size=5) as pipeline:
        for first in (0, 5):
            assert pipeline.room() == 5
            pipeline.submit(inputs_of(task, range(first, first + 5)))
            while pipeline.outstanding:
                assert pipeline.room() == 0
                pipeline.next_results()


class Held(Runner):
    """Ends a trial when the test says so."""

    def __init__(self):
        super().__init__()
        self.futures = {}

    def submit(self, measure_input, build_result):
        return self.futures.setdefault(measure_input.config.index, Future())

    def end(self, index):
        result = MeasureResult((1e-3,), MeasureErrorNo.NO_ERROR, 0.01, 0.0)
        self.futures[index].set_result(result)

    def await_trials(self, *those):
        """Wait until trials were built and are here."""
        deadline = time.monotonic() + 30
        while not self.futures.keys() >= {*those} and time.monotonic() < deadline:
            time.sleep(0.001)


def test_room_is_bounded_and_grows_with_results(task):
    runner = Held()
    with Pipeline(task, measure_option(PlainBuilder(n_parallel=2), runner)) as pipeline:
        assert pipeline.room() == pipeline.capacity == 6
        pipeline.submit(inputs_of(task, range(6)))
        assert pipeline.room() == 0
        for index in range(2):
            runner.await_trials(index)
            runner.end(index)
        assert indices(pipeline.next_results()) == [0, 1]
        assert pipeline.room() == 2


@pytest.fixture
def held(task):
    """A pipeline with the trials 0 to 3 at a runner that holds them, and what has ended."""
    runner, ended = Held(), []

    def note(measure_input, result):
        if measure_input.config.index == 3:
            raise OSError("no space left")
        ended.append(measure_input.config.index)

    with Pipeline(task, measure_option(PlainBuilder(), runner), on_end=note) as pipeline:
        pipeline.submit(inputs_of(task, range(4)))
        runner.await_trials(*range(4))
        yield pipeline, runner, ended


def indices(pairs):
    return [inp.config.index for inp, _ in pairs]


def test_what_ended_is_told_at_once_and_given_in_turn(held):
    pipeline, runner, ended = held
    runner.end(2)
    runner.end(1)
    assert ended == [2, 1]
    assert pipeline.in_turn() == []
    runner.end(0)
    assert ended == [2, 1, 0]
    assert indices(pipeline.next_results()) == [0, 1, 2]
    assert pipeline.outstanding == 1


def test_leaving_gives_all_that_ended(held):
    pipeline, runner, _ = held
    runner.end(2)
    runner.futures[0].set_exception(KeyError("a bug in the script"))
    runner.end(1)
    assert indices(pipeline.leave()) == [1, 2]
    assert indices(pipeline.leave()) == []


def woken(pipeline, act):
    """Return whether who waits for room is woken by something done in another thread."""
    pipeline.wait_for_room(0)  # takes note of all that ended before
    timer = threading.Timer(0.05, act)
    timer.start()
    started = time.monotonic()
    pipeline.wait_for_room(20)
    timer.join(20)
    return time.monotonic() - started < 10


def test_a_trial_that_is_cancelled_wakes_who_waits_for_room(held):
    pipeline, *_ = held
    oldest, *_, youngest = pipeline._trials
    assert woken(pipeline, youngest.cancel)
    assert not pipeline.ready
    assert woken(pipeline, oldest.cancel)
    assert pipeline.ready
    with pytest.raises(MeasureError, match="a trial was cancelled"):
        pipeline.in_turn()


def test_each_trial_that_ends_behind_the_oldest_wakes_who_waits_for_room(held):
    pipeline, runner, _ = held
    for index in (2, 1):
        assert woken(pipeline, lambda index=index: runner.end(index))
    assert pipeline.in_turn() == []


def test_closing_does_not_wait_for_a_function_that_does_not_end(task, monkeypatch):
    monkeypatch.setattr("autotune.measure.batcher.JOIN_S", 0.2)
    entered, over = threading.Event(), threading.Event()

    class Endless(PlainBuilder):
        def build(self, measure_inputs):
            entered.set()
            over.wait(30)
            return super().build(measure_inputs)

    pipeline = Pipeline(task, measure_option(Endless(), Held()))
    try:
        pipeline.submit(inputs_of(task, [0]))
        assert entered.wait(20)
        started = time.monotonic()
        pipeline.close()
        assert time.monotonic() - started < 10
    finally:
        over.set()


def test_what_was_measured_before_an_error_is_not_lost(held):
    pipeline, runner, ended = held
    runner.futures[1].set_exception(KeyError("a bug in the script"))
    runner.end(0)
    runner.end(2)
    assert ended == [0, 2]
    assert indices(pipeline.next_results()) == [0]
    with pytest.raises(KeyError, match="a bug in the script"):
        pipeline.next_results()


def test_a_trial_that_could_not_be_logged_is_an_error(held):
    pipeline, runner, _ = held
    for index in range(4):
        runner.end(index)
    assert indices(pipeline.next_results()) == [0, 1, 2]
    with pytest.raises(OSError, match="no space left"):
        pipeline.next_results()


def test_nothing_is_handed_to_a_runner_once_it_is_being_closed(task):
    class Slow(PlainBuilder):
        """Ends its last build only when it is closed."""

        def __init__(self):
            super().__init__(n_parallel=1)
            self.closing = threading.Event()
            self.discarded = []

        def build(self, measure_inputs):
            self.closing.wait(30)
            return super().build(measure_inputs)

        def discard(self, build_result):
            self.discarded.append(build_result.artifact)

        def close(self):
            self.closing.set()
            super().close()

    builder, runner = Slow(), Held()
    pipeline = Pipeline(task, measure_option(builder, runner))
    pipeline.submit(inputs_of(task, [7]))
    pipeline.close()
    assert builder.discarded == ["7"]
    assert runner.futures == {}


def in_time(function, seconds=30.0):
    """Call a function in a thread; say whether it returned in so many seconds."""
    thread = threading.Thread(target=function, daemon=True)
    thread.start()
    thread.join(seconds)
    return not thread.is_alive()


@pytest.fixture
def narrow(task):
    """A pipeline with room for four trials, and its runner, which holds them."""
    runner = Held()
    option = measure_option(PlainBuilder(n_parallel=2), runner)
    with Pipeline(task, option, batch_size=4) as line:
        yield line, runner


def ended(runner, indices):
    """End trials once they run."""
    for index in indices:
        while index not in runner.futures:
            time.sleep(0.001)
        runner.end(index)


def test_what_ended_behind_a_slow_trial_makes_room_up_to_as_many_again(task, narrow):
    line, runner = narrow
    line.submit(inputs_of(task, range(line.room())))
    for first, last in ((1, 4), (4, 7)):
        ended(runner, range(first, last))
        line.wait_for_room()
        line.submit(inputs_of(task, range(last, last + line.room())))
    ended(runner, range(7, 8))
    assert (line.outstanding, line.room(), line.in_turn()) == (8, 0, [])
    ended(runner, [0])
    line.wait_for_room()
    assert indices(line.in_turn()) == list(range(8))


def test_room_that_nobody_takes_is_told_of_once(task, narrow):
    line, runner = narrow
    line.submit(inputs_of(task, range(3)))
    ended(runner, [1, 2])
    assert in_time(line.wait_for_room)
    assert not in_time(line.wait_for_room, 0.5)
    ended(runner, [0])
    assert indices(drained(line)) == [0, 1, 2]
    assert in_time(line.wait_for_room)
