"""The future of a trial: what is given up with it, and what it leaves behind."""

import gc
import weakref
from concurrent.futures import Future

import pytest

from autotune.measure import MeasureResult
from autotune.measure.trial_future import TrialFuture

RESULT = MeasureResult((1e-3,), 0, 0.1, 0.0)


def end_by_result(trial):
    trial.finish(RESULT)


def end_by_error(trial):
    trial.fail(OSError("no space left"))


@pytest.mark.parametrize("end", [end_by_result, end_by_error])
def test_a_trial_that_ended_and_its_work_do_not_hold_each_other(end):
    def begin():
        trial, build, run = TrialFuture(None), Future(), Future()
        trial.builds(build)
        build.add_done_callback(lambda _: trial)
        trial.runs(run)
        run.add_done_callback(lambda _: trial)
        end(trial)
        return [weakref.ref(one) for one in (trial, build, run)]

    gc.disable()
    try:
        assert [one() for one in begin()] == [None, None, None]
    finally:
        gc.enable()


def test_what_was_not_begun_is_given_up_with_its_trial():
    trial, build = TrialFuture(None), Future()
    trial.builds(build)
    assert trial.cancel()
    assert build.cancelled()
    late = Future()
    trial.runs(late)
    assert late.cancelled()


def test_a_run_is_given_up_with_its_trial_and_goes_on_where_it_began():
    for begun in (False, True):
        trial, run = TrialFuture(None), Future()
        trial.runs(run)
        if begun:
            run.set_running_or_notify_cancel()
            assert trial.on_device
        assert trial.cancel()
        assert run.cancelled() is not begun
        assert trial.built
        assert not trial.on_device


def test_a_trial_that_ended_is_not_given_up():
    trial, run = TrialFuture(None), Future()
    trial.runs(run)
    trial.finish(RESULT)
    assert not trial.cancel()
    assert not run.cancelled()
    assert trial.built
    assert trial.result() == RESULT
