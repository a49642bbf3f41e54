"""A worker that fails every trial blames none while honest ones come and go, in real processes."""

import contextlib
import threading
import time

import pytest

import autotune.task as at
from autotune.fleet import Fleet
from autotune.measure import MeasureErrorNo, Session
from tests.fleet.doubles import expected_error
from tests.fleet.test_chaos import FAST
from tests.fleet.workers import Worker, started_scheduler

KNOBS = range(24)


@pytest.fixture
def pair(scheduler):
    """An honest worker, and one that fails all."""
    both = Worker(scheduler, "honest"), Worker(scheduler, "liar", "liar")
    yield both
    for worker in both:
        worker.close()


def results(fleet, salt, knobs=KNOBS):
    task = at.create("fleet_test.chaos", (salt,), target="c")
    with Session(fleet) as session:
        return session.measure(task, map(task.config_space.get, knobs))


def errors(fleet, salt):
    return [result.error_no for result in results(fleet, salt)]


EXPECTED = [expected_error(knob) for knob in KNOBS]


@contextlib.contextmanager
def meanwhile(what):
    """Let something happen in a thread until it is over."""
    over = threading.Event()
    thread = threading.Thread(target=what, args=(over,))
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()


def test_while_all_others_hang_the_failures_of_a_liar_wait(pair, scheduler):
    honest, _ = pair
    with Fleet(scheduler, run=FAST, lease_s=1.2) as fleet:
        fleet.wait(2)
        honest.stop()
        deadline = time.monotonic() + 20
        while sum(fleet.classes().values()) > 1:
            assert time.monotonic() < deadline
            time.sleep(0.02)
        threading.Timer(2.0, honest.resume).start()
        assert errors(fleet, "hangs") == EXPECTED


def test_while_the_connections_of_all_break_the_failures_of_a_liar_wait(pair, scheduler):
    def cut(over):
        for _ in range(5):
            if not over.wait(0.5):
                for worker in pair:
                    worker.cut()

    with Fleet(scheduler, run=FAST) as fleet:
        fleet.wait(2)
        with meanwhile(cut):
            got = errors(fleet, "cut")
        assert got == EXPECTED


def test_who_is_back_first_after_the_scheduler_blames_no_trial():
    with contextlib.ExitStack() as made:
        first = made.enter_context(contextlib.ExitStack())
        address = first.enter_context(started_scheduler())
        both = [Worker(address, "honest"), Worker(address, "liar", "liar")]
        for worker in both:
            made.callback(worker.close)

        def restart(over):
            over.wait(0.3)
            first.close()
            both[0].stop()
            made.enter_context(started_scheduler(address.rpartition(":")[2]))
            time.sleep(3.0)
            both[0].resume()

        fleet = made.enter_context(Fleet(address, run=FAST, lease_s=2.0))
        fleet.wait(2)
        with meanwhile(restart):
            assert errors(fleet, "restarted") == EXPECTED


def test_what_nobody_came_to_confirm_is_a_failure_that_says_so(pair, scheduler):
    honest, _ = pair
    with Fleet(scheduler, run=FAST, patience_s=4) as fleet:
        fleet.wait(2)
        honest.kill()
        got = results(fleet, "nobody", [0, 1])
    assert [result.error_no for result in got] == [MeasureErrorNo.RUNTIME_DEVICE] * 2
    for result in got:
        assert "the driver is broken\n(not confirmed by a second worker: liar/cpu:0" in (
            result.error_msg
        )
