import os
import socket
import time

import pytest

from tests.fleet.workers import IMPORTED, started_scheduler
from tests.forked import forkserver_with


@pytest.fixture(scope="module")
def scheduler():
    """The address of a scheduler without workers; those of `Worker` start quickly beside it."""
    pytest.importorskip("distributed")
    with forkserver_with(IMPORTED), started_scheduler() as address:
        yield address


@pytest.fixture(scope="module", autouse=True)
def no_connection_stays():
    """Every connection that a module of tests opens, it closes."""
    before = connections()
    yield
    deadline = time.monotonic() + 5
    while connections() - before and time.monotonic() < deadline:
        time.sleep(0.02)
    assert connections() <= before


def connections():
    """Returns the sockets of networks that this process has open."""
    found = set()
    for fd in os.listdir("/proc/self/fd"):
        try:
            name = os.readlink(f"/proc/self/fd/{fd}")
            if not name.startswith("socket:"):
                continue  # a copy of it would stay open
            with socket.socket(fileno=os.dup(int(fd))) as one:
                if one.family in (socket.AF_INET, socket.AF_INET6):
                    found.add(name)
        except OSError:
            pass  # closed meanwhile
    return found
