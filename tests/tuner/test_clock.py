"""How a run counts its time."""

from types import SimpleNamespace

import pytest

from autotune.tuner.loop import clock
from autotune.tuner.loop.clock import RunClock


@pytest.fixture
def time(monkeypatch):
    now = SimpleNamespace(s=100.0)
    monkeypatch.setattr(clock, "time", SimpleNamespace(monotonic=lambda: now.s))
    return now


def test_a_limit_counts_from_when_the_run_begins_to_work(time):
    run = RunClock(10)
    time.s += 5
    assert [run.begin(), run.begin()] == [True, False]
    time.s += 4
    assert (run.left_s, run.elapsed_s, run.wall_s) == (6, 4, 9)
    time.s += 7
    assert run.left_s == 0


def test_without_a_limit_there_is_no_end(time):
    run = RunClock(None)
    run.begin()
    assert run.left_s is None
    assert not run.paused


def test_a_part_of_a_run_ends_before_its_limit_and_the_next_goes_on(time):
    run = RunClock(10)
    run.begin()
    run.pause_in(3)
    time.s += 2
    assert (run.left_s, run.paused) == (1, False)
    time.s += 1
    assert (run.left_s, run.paused) == (0, True)
    run.pause_in(None)
    assert (run.left_s, run.paused) == (7, False)
