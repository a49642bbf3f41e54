"""One small fleet for all tests of a module: a scheduler and two workers, in processes."""

import contextlib

import pytest

from tests.fleet.workers import IMPORTED, Worker, started_scheduler
from tests.forked import forkserver_with

FAST = {"number": 1, "repeat": 1, "cooldown_interval": 0}
_open = contextlib.ExitStack()
_made = {}


@pytest.fixture(scope="module", autouse=True)
def no_fleet_stays():
    """End what the module has started: its threads are no company for other tests."""
    yield
    _made.clear()
    _open.close()


def small_cluster():
    """Returns the address of the scheduler."""
    if "cluster" not in _made:
        pytest.importorskip("distributed")
        _open.enter_context(forkserver_with(IMPORTED))
        address = _open.enter_context(started_scheduler())
        for name in ("one", "two"):
            _open.callback(Worker(address, name, "real").end)
        _made["cluster"] = address
    return _made["cluster"]


def small_fleet():
    """Returns a fleet over it."""
    if "fleet" not in _made:
        from autotune.fleet import Fleet

        _made["fleet"] = _open.enter_context(Fleet(small_cluster(), run=FAST, patience_s=20))
        _made["fleet"].wait(2)
    return _made["fleet"]


def fleet_builder():
    """Returns the builder of a small fleet."""
    return small_fleet().builder


def fleet_runner():
    """Returns the runner of a small fleet."""
    return small_fleet().runner
