"""Programs that hold a lock on a device, each a process forked from the tests."""

import contextlib
import os
import signal
import time

SOON_S = 20.0


def nothing():
    """Nobody is told of a wait."""


class Forked:
    """A function in a forked process: another program, as far as locks are concerned.

    Args:
        run: called with a function that says something.
        orphan: whether it descends from no process of the test.
    """

    def __init__(self, run, orphan=False):
        self.reads, writes = os.pipe()
        self.pid = os.fork()
        if not self.pid:
            status = 1
            if orphan:
                parent = os.getpid()
                if os.fork():
                    os._exit(0)
                while os.getppid() == parent:
                    time.sleep(0.001)
            with contextlib.suppress(BaseException):
                run(lambda text: os.write(writes, text.encode()))
                status = 0
            os._exit(status)
        os.close(writes)
        if orphan:
            os.waitpid(self.pid, 0)

    def line(self):
        """Returns what it says next."""
        return os.read(self.reads, 100).decode()

    def kill(self):
        os.kill(self.pid, signal.SIGKILL)

    def wait(self):
        """Returns its exit status."""
        deadline = time.monotonic() + SOON_S
        while time.monotonic() < deadline:
            pid, status = os.waitpid(self.pid, os.WNOHANG)
            if pid:
                os.close(self.reads)
                return os.waitstatus_to_exitcode(status)
            time.sleep(0.005)
        self.kill()
        os.waitpid(self.pid, 0)
        raise AssertionError("it waits for ever")


def holds(lock, forever=False):
    """Returns a program that says when it holds a lock, and then holds it on or ends."""

    def run(say):
        with lock.held(lambda: say("waits"), nothing):
            say("holds")
            if forever:
                time.sleep(2 * SOON_S)

    return run


def taken_by_others(lock):
    """Whether somebody who wanted a lock now would have to wait."""
    asks = Forked(holds(lock))
    said = asks.line()
    asks.kill()
    asks.wait()
    return said == "waits"


@contextlib.contextmanager
def another(lock):
    """Another program that holds a lock inside ``with``."""
    program = Forked(holds(lock, forever=True))
    try:
        assert program.line() == "holds"
        yield program
    finally:
        program.kill()
        program.wait()
