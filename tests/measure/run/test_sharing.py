"""Equal code is measured once, unless what came of it may have had another cause."""

import weakref
from concurrent.futures import Future
from pathlib import Path

import pytest

from autotune.errors import MeasureError
from autotune.measure import BuildResult, MeasureErrorNo, MeasureResult
from autotune.measure.build.realise import realise
from autotune.measure.run.sharing import Sharing
from tests.measure.devices import stated_inputs


class Runs:
    """Notes who is run; the test settles what comes of it."""

    def __init__(self):
        self.futures = []

    def __call__(self, measure_input, build_result):
        self.futures.append(Future())
        return self.futures[-1]


@pytest.fixture
def trials(tmp_path):
    inputs = stated_inputs(2)
    kernel = realise(inputs[0]).kernel
    return [(inp, BuildResult(str(Path(tmp_path, "k")), kernel, code_hash="c")) for inp in inputs]


def result(number):
    return MeasureResult((1.0,) if number == 0 else (), number, 0.1, 0.0)


@pytest.mark.parametrize("number", [MeasureErrorNo.NO_ERROR, MeasureErrorNo.WRONG_ANSWER])
def test_what_the_code_decides_is_shared(trials, number):
    runs = Runs()
    sharing = Sharing(runs)
    first, second = (sharing.submit(*trial) for trial in trials)
    runs.futures[0].set_result(result(number))
    assert len(runs.futures) == 1
    assert first.result().error_no == second.result().error_no == number
    assert second.result().extra["same_code_as"] == 0


@pytest.mark.parametrize("number", [MeasureErrorNo.RUNTIME_DEVICE, MeasureErrorNo.RUN_TIMEOUT])
def test_a_crash_or_a_timeout_is_not_shared(trials, number):
    runs = Runs()
    sharing = Sharing(runs)
    first, second = (sharing.submit(*trial) for trial in trials)
    runs.futures[0].set_result(result(number))
    assert len(runs.futures) == 2
    assert not second.done()
    runs.futures[1].set_result(result(0))
    assert first.result().error_no == number
    assert second.result().ok
    assert "same_code_as" not in second.result().extra


def test_what_ends_the_run_reaches_all_who_wait(trials):
    runs = Runs()
    sharing = Sharing(runs)
    futures = [sharing.submit(*trial) for trial in trials]
    runs.futures[0].set_exception(MeasureError("no device is left"))
    for future in futures:
        with pytest.raises(MeasureError, match="no device is left"):
            future.result(timeout=1)


def test_who_waited_for_the_first_is_let_go_and_its_result_is_shared(trials):
    runs = Runs()
    sharing = Sharing(runs)
    first = weakref.ref(sharing.submit(*trials[0]))
    runs.futures.pop().set_result(result(0))
    assert first() is None
    assert sharing.submit(*trials[1]).result(timeout=1).extra["same_code_as"] == 0
    assert not runs.futures


def test_a_candidate_that_was_measured_is_measured_again(trials):
    runs = Runs()
    sharing = Sharing(runs)
    for _ in range(2):
        sharing.submit(*trials[0])
        runs.futures[-1].set_result(result(0))
    assert len(runs.futures) == 2


@pytest.mark.parametrize("lose", [Future.cancel, lambda one: one.set_exception(OSError("lost"))])
def test_after_one_that_has_no_result_the_next_runs(trials, lose):
    runs = Runs()
    sharing = Sharing(runs)
    sharing.submit(*trials[0])
    lose(runs.futures[0])
    second = sharing.submit(*trials[1])
    runs.futures[1].set_result(result(0))
    assert second.result(timeout=1).ok
    assert "same_code_as" not in second.result().extra
