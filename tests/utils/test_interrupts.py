import signal

import pytest

from autotune.utils.interrupts import interrupts_deferred


def interrupted(times, done):
    with interrupts_deferred():
        for _ in range(times):
            signal.raise_signal(signal.SIGINT)
        done.append(True)


def test_an_interrupt_waits_for_the_end_of_the_block():
    done = []
    with pytest.raises(KeyboardInterrupt):
        interrupted(1, done)
    assert done
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_a_second_interrupt_does_not_wait():
    done = []
    with pytest.raises(KeyboardInterrupt):
        interrupted(2, done)
    assert not done


def test_a_quiet_block_passes():
    done = []
    interrupted(0, done)
    assert done
