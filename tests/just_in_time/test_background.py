"""The worker behind calls: it waits while calls are made, and fails alone."""

import threading
import time

import pytest

from autotune.errors import TunerError
from autotune.just_in_time import background


@pytest.fixture
def worker(monkeypatch):
    """A worker for which nothing counts but calls, and half a second after them."""
    monkeypatch.setattr(background, "IDLE_S", 0.5)
    monkeypatch.setattr(background, "_is_busy", lambda: False)
    made = background.Worker()
    yield made
    assert made.join(30)


class Clock:
    """Moves when the test says so, and knows how often somebody slept by it."""

    def __init__(self):
        self.now, self.sleeps = 0.0, 0

    def monotonic(self):
        return self.now

    def sleep(self, seconds):
        self.sleeps += 1
        time.sleep(0.001)

    def pass_(self, seconds):
        """Let time pass, and let the worker look whether it is enough."""
        self.now += seconds
        looked, end = self.sleeps, time.monotonic() + 30
        while self.sleeps < looked + 3 and time.monotonic() < end:
            time.sleep(0.001)


@pytest.fixture
def clock(monkeypatch):
    made = Clock()
    monkeypatch.setattr(background, "time", made)
    return made


def test_work_waits_while_calls_are_made(clock, worker):
    done = threading.Event()
    worker.submit(background.Job("a", lambda pause: done.set(), True))
    for _ in range(10):
        with worker.calling():
            pass
        clock.pass_(0.4)
    assert not done.is_set()
    clock.now += 0.1
    assert done.wait(30)


def test_idle_time_begins_at_the_end_of_the_last_call_and_not_at_its_beginning(clock, worker):
    began, let_go = threading.Event(), threading.Event()
    started = []

    def call():
        with worker.calling():
            began.set()
            assert let_go.wait(30)

    def fail():
        with worker.calling():
            raise ValueError("of the kernel")

    caller = threading.Thread(target=call)
    caller.start()
    assert began.wait(30)
    worker.submit(background.Job("a", lambda pause: started.append(clock.now), True))
    with pytest.raises(ValueError, match="of the kernel"):
        fail()  # ends within the long one, which goes on
    clock.pass_(5)
    assert not started
    let_go.set()
    caller.join(30)
    clock.pass_(0.4)
    assert not started
    clock.now += 0.1
    assert worker.join(30)
    assert started == [pytest.approx(5.5)]


def test_work_waits_for_the_device_to_have_nothing_to_do(worker, monkeypatch):
    asked = []

    def is_working(device):
        asked.append(device)
        return len(asked) < 3

    monkeypatch.setattr(background.Device, "is_working", property(is_working))
    waited = []
    job = background.Job("a", lambda pause: (pause(), waited.append(len(asked))), True,
                         background.Device("cuda"))  # fmt: skip
    worker.submit(job)
    assert worker.join(30)
    assert waited == [3]  # what its own trials do between its pauses is not asked for


def test_a_failure_in_the_background_leaves_the_caller_alone(caplog):
    worker = background.Worker()

    def fail(pause):
        raise TunerError("nothing can run")

    worker.submit(background.Job("a", fail, True))
    assert worker.join(30)
    assert "nothing can run" in caplog.text
