"""Workers give an account of what they were sent long ago."""

import threading
import time
from concurrent.futures import Future
from types import SimpleNamespace

import pytest

from autotune.fleet import executors
from autotune.fleet.executors import BuildExecutor
from autotune.fleet.file_store import Digests
from autotune.fleet.member import Member
from autotune.fleet.messages import Build, Data, Facts, Run, answer_to_plain
from autotune.fleet.overdue import Overdue
from autotune.fleet.queue import PlaceUnable
from autotune.measure.build.job import BuildJob
from tests.fleet import doubles
from tests.fleet.doubles import FACTS
from tests.fleet.test_parts import KERNEL, RUN, SENDER

PATIENCE_S = 10.0
RUNS = Run(SENDER, RUN, "cpu:0", "c", 3, 0.0, 0, {})
BUILDS = Build(SENDER, BuildJob(KERNEL, "cuda", 5.0, "nvcc", ""), 7.0)


class Worker:
    """A worker that never answers a job, and what it tells of its places.

    Attributes:
        states: what it tells by the key of a place; None where it does not answer.
        asked: how often it was asked.
    """

    def __init__(self, states):
        self.states, self.asked, self.now = states, 0, 0.0
        self.member = Member(self, "tcp://x", FACTS, Digests(), None)
        self.overdue = Overdue(self, PATIENCE_S, lambda: time.monotonic() + self.now)

    def ask(self, address, message):
        answer = Future()
        if message["ask"] == "Facts":
            self.asked += 1
            if self.states is not None:
                answer.set_result(answer_to_plain(Data({"places": self.states})))
        return answer

    def after(self, seconds):
        """Let time pass."""
        for _ in range(int(seconds)):
            self.now += 1
            self.overdue.look([self.member])


def state(waiting, overdue_s=0.0):
    return {"waiting": waiting, "done": 0, "failed": 0, "rate": 0.0, "overdue_s": overdue_s}


@pytest.mark.parametrize("ask", [RUNS, BUILDS])
@pytest.mark.parametrize(
    ("told", "why"),
    [
        (state(0), "nothing waits or runs there"),
        (state(2, 7.0), "what runs there exceeds its limit by 7 s"),
        ({"waiting": "x"}, "it tells no state of the place"),
        (None, "it does not answer"),
    ],
)
def test_a_call_that_is_not_accounted_for_twice_is_given_up(ask, told, why):
    worker = Worker(told and {"cpu:0": told, "builders": told})
    call = worker.member.begin(ask)
    worker.after(2 * PATIENCE_S - 1)
    assert not call.done()
    worker.after(2 * PATIENCE_S)
    with pytest.raises(PlaceUnable, match=rf"it has not answered for \d+ s: {why}"):
        call.result(0)


def test_a_call_that_waits_behind_others_for_hours_is_not_given_up():
    worker = Worker({"cpu:0": state(3)})
    call = worker.member.begin(RUNS)
    worker.after(10_000)
    assert not call.done()
    assert worker.asked <= 10_000 / PATIENCE_S


def test_an_answer_that_crosses_the_reply_costs_no_call():
    worker = Worker({"cpu:0": state(0)})
    call = worker.member.begin(RUNS)
    worker.after(2 * PATIENCE_S - 1)
    worker.states = {"cpu:0": state(1)}
    worker.after(5 * PATIENCE_S)
    assert not call.done()


def test_who_answers_in_time_is_asked_nothing():
    worker = Worker({})
    worker.member.begin(Facts())
    for _ in range(5):
        worker.member.begin(RUNS).cancel()
    worker.after(5 * PATIENCE_S)
    assert worker.asked == 1


def test_a_job_that_exceeds_its_limit_is_told(monkeypatch):
    begun, over = threading.Event(), threading.Event()

    def stuck(self, ask):
        begun.set()
        assert over.wait(60)
        raise OSError("at last")

    monkeypatch.setattr(executors, "BuildPool", doubles.Pool)
    monkeypatch.setattr(BuildExecutor, "_built", stuck)
    monkeypatch.setattr(executors, "_START_S", -1.0)
    made = BuildExecutor(1)
    try:
        assert (made.waiting, made.overdue_s) == (0, 0.0)
        answer = made.put(SimpleNamespace(sender=SENDER, timeout_s=0.0))
        assert begun.wait(60)
        assert made.waiting == 1
        assert made.overdue_s >= 1.0
        monkeypatch.setattr(made.pool, "paused_s", lambda: 1e6)  # while kernels are timed
        assert made.overdue_s == 0.0
    finally:
        over.set()
        assert "at last" in answer.result(60).reason
        assert made.overdue_s == 0.0
        made.close()


def test_a_job_that_its_client_cancelled_keeps_no_worker_from_being_closed(monkeypatch):
    begun, over = threading.Event(), threading.Event()

    def stuck(self, ask):
        begun.set()
        assert over.wait(60)
        raise OSError("at last")

    monkeypatch.setattr(executors, "BuildPool", doubles.Pool)
    monkeypatch.setattr(BuildExecutor, "_built", stuck)
    made = BuildExecutor(1)
    ask = SimpleNamespace(sender=SENDER, timeout_s=0.0)
    made.put(ask)
    assert begun.wait(60)
    cancelled, waiting = made.put(ask), made.put(ask)
    assert cancelled.cancel()
    over_soon = threading.Timer(0.1, over.set)
    over_soon.start()
    made.close()
    assert "being closed" in waiting.result(60).reason
