"""Who is blamed for a death, and after how many of them."""

import signal

import pytest

from autotune.measure.process import blame
from autotune.measure.process.blame import (
    ATTEMPTS,
    PAUSES_S,
    Attempts,
    OutOfMemoryWatch,
    killed_from_outside,
    oom_kills,
)


@pytest.mark.parametrize(
    ("exit_code", "outside"),
    [
        (-signal.SIGKILL, True),
        (-signal.SIGTERM, True),
        (-signal.SIGSEGV, False),
        (-signal.SIGABRT, False),
        (-signal.SIGBUS, False),
        (0, False),
        (9, False),
        (None, False),
    ],
)
def test_a_kill_comes_from_outside_and_a_crash_does_not(exit_code, outside):
    assert killed_from_outside(exit_code) is outside


def test_kills_convict_a_trial_only_when_nothing_else_ever_happens(monkeypatch):
    monkeypatch.setattr(blame, "oom_kills", lambda: 7)
    attempts = Attempts(OutOfMemoryWatch())
    assert [attempts.record_kill() for _ in range(ATTEMPTS)] == [False] * (ATTEMPTS - 1) + [True]


def test_memory_that_ran_out_twice_convicts_a_trial(monkeypatch):
    counter = iter([5, 5, 6, 6, 8])
    monkeypatch.setattr(blame, "oom_kills", lambda: next(counter))
    attempts = Attempts(OutOfMemoryWatch())
    assert [attempts.record_kill() for _ in range(4)] == [False, False, False, True]


def test_shortages_and_kills_are_not_added_up(monkeypatch):
    monkeypatch.setattr(blame, "oom_kills", lambda: 7)
    attempts = Attempts(OutOfMemoryWatch())
    assert not any(attempts.record_shortage() for _ in range(ATTEMPTS - 1))
    assert not any(attempts.record_kill() for _ in range(ATTEMPTS - 1))
    assert not attempts.record_crash()
    assert attempts.record_shortage()


def test_pauses_grow_and_end():
    attempts, pauses = Attempts(), []
    assert attempts.pause_s == 0
    for _ in range(10):
        attempts.record_crash()
        pauses.append(attempts.pause_s)
    assert pauses == [*PAUSES_S, *[PAUSES_S[-1]] * 3]


def test_the_verdict_is_told_in_the_first_line():
    attempts = Attempts()
    attempts.record_crash()
    attempts.record_crash()
    assert attempts.verdict("died\nprocess 7") == "died, 2 times in a row\nprocess 7"


def test_the_system_counts_what_it_kills_for_memory():
    assert oom_kills() >= 0
