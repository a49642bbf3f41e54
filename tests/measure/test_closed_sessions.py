"""Sessions that are closed, or that nobody closes."""

import gc
import os
import time

import pytest

from autotune.errors import MeasureError
from autotune.measure import Session
from tests.measure import kernels  # noqa: F401 - registers the templates
from tests.measure.doubles import PlainBuilder, PlainRunner
from tests.measure.test_session import candidates, local, pids, times_task


def alive(pid):
    return os.path.exists(f"/proc/{pid}")


def test_a_closed_session_takes_nothing():
    task = times_task(2)
    closed = Session(PlainBuilder(), PlainRunner())
    closed.close()
    with pytest.raises(MeasureError, match="the session was closed"):
        closed.submit(task, candidates(task, [0]))


def test_a_closed_session_starts_nothing_for_a_task_it_knows():
    task = times_task(2)
    session = Session(*local())
    assert all(result.ok for result in session.measure(task, candidates(task, [0])))
    session.close()
    with pytest.raises(MeasureError, match="the session was closed"):
        session.submit(task, candidates(task, [1]))
    assert pids(session) == []


def test_what_is_started_while_a_session_is_closed_does_not_stay():
    class Runner(PlainRunner):
        running = False

        def start(self):
            session.close()
            self.running = True

        def close(self):
            self.running = False
            super().close()

    session = Session(PlainBuilder(), Runner())
    with pytest.raises(MeasureError, match="the session was closed"):
        session.prepare(times_task(2))
    assert not session.runner.running


def test_the_processes_of_a_session_that_nobody_closed_end_with_it():
    task = times_task(2)
    session = Session(*local())
    session.measure(task, candidates(task, [0, 1]))
    left = pids(session)
    assert left
    del session
    deadline = time.monotonic() + 20
    while any(map(alive, left)) and time.monotonic() < deadline:
        gc.collect()
        time.sleep(0.02)
    assert not any(map(alive, left))


def test_what_is_under_way_when_a_session_is_closed_has_no_result():
    task = times_task(2)
    session = Session(*local())
    futures = session.submit(task, candidates(task))
    session.close()
    for future in futures:
        assert future.cancelled() or future.result().ok
    assert any(future.cancelled() for future in futures)
    assert pids(session) == []
