import signal
from contextlib import nullcontext

import pytest

from autotune.utils.interrupts import interrupts_deferrable, interrupts_deferred

# Alone, and where the handler stands in for a whole run.
ALONE_OR_IN_A_RUN = pytest.mark.parametrize(
    "around", [nullcontext, interrupts_deferrable], ids=["alone", "in a run"]
)


def interrupted(times, done):
    with interrupts_deferred():
        for _ in range(times):
            signal.raise_signal(signal.SIGINT)
        done.append(True)


@pytest.fixture(autouse=True)
def _left_as_it_was():
    yield
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


@ALONE_OR_IN_A_RUN
def test_an_interrupt_waits_for_the_end_of_the_block(around):
    done = []
    with pytest.raises(KeyboardInterrupt), around():
        interrupted(1, done)
    assert done


@ALONE_OR_IN_A_RUN
def test_a_second_interrupt_does_not_wait(around):
    done = []
    with pytest.raises(KeyboardInterrupt), around():
        interrupted(2, done)
    assert not done


@ALONE_OR_IN_A_RUN
def test_a_quiet_block_passes(around):
    done = []
    with around():
        interrupted(0, done)
    assert done


def test_between_blocks_of_a_run_an_interrupt_comes_at_once():
    done = []
    with interrupts_deferrable():
        interrupted(0, done)
        with pytest.raises(KeyboardInterrupt):
            signal.raise_signal(signal.SIGINT)
        with pytest.raises(KeyboardInterrupt):
            interrupted(1, done)
        interrupted(0, done)  # none is left over
    assert len(done) == 3


def failing():
    with interrupts_deferred():
        signal.raise_signal(signal.SIGINT)
        raise ValueError("own")


def test_an_error_of_the_block_goes_before_the_interrupt():
    with interrupts_deferrable():
        with pytest.raises(ValueError, match="own"):
            failing()
        interrupted(0, [])


def nested(done):
    with interrupts_deferrable(), interrupts_deferred():
        with interrupts_deferrable():
            interrupted(1, done)
        done.append(True)


def test_a_block_in_a_block_and_a_run_in_a_run_wait_for_the_outer():
    done = []
    with pytest.raises(KeyboardInterrupt):
        nested(done)
    assert len(done) == 2


def test_a_handler_that_was_set_meanwhile_stays():
    def own(number, frame):
        """Somebody's."""

    with interrupts_deferrable():
        signal.signal(signal.SIGINT, own)
    assert signal.getsignal(signal.SIGINT) is own
    signal.signal(signal.SIGINT, signal.default_int_handler)
