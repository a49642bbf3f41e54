"""Locks on a device, taken by the process that times on it, and released when it ends.

Two locks make one that is fair. A process first takes the lock of the device's *queue*, then waits
for the device itself, and releases the queue as soon as it has the device. So at most one process
waits for the device, and the one that just had it queues behind: two programs take turns. Both are
``flock``s: the system releases them however a process ends.

A process does not wait for a lock that its ancestor holds: a program that uses a device
exclusively does so on behalf of the programs that it starts.
"""

from __future__ import annotations

import fcntl
import os
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass

from autotune.measure.exclusive.folder import NoLocks, open_lock, still_there
from autotune.measure.exclusive.holders import held_by_ancestor, holder

_QUEUE = ".queue"

# Descriptors of locks that are held. A process that is forked meanwhile has copies, which would
# hold them on when this one is killed.
_open: set[int] = set()


def _let_go() -> None:
    while _open:
        os.close(_open.pop())


os.register_at_fork(after_in_child=_let_go)


@dataclass(frozen=True)
class Claim:
    """One lock.

    Attributes:
        name: of its file.
        shared: whether others that share it may hold it at the same time.
    """

    name: str
    shared: bool = False


@dataclass(frozen=True)
class DeviceLock:
    """The lock that gives exclusive use of a device.

    Attributes:
        folder: of the files.
        claims: taken in this order, which is the same in all programs.
    """

    folder: str
    claims: tuple[Claim, ...]

    def make(self) -> None:
        """Make the files that are missing.

        Raises:
            NoLocks: they cannot be made, or cannot be opened.
        """
        for claim in self.claims:
            for name in (claim.name, claim.name + _QUEUE):
                os.close(open_lock(self.folder, name))

    def holders(self) -> tuple[str, ...]:
        """Return who holds it now, in words, as far as the system tells."""
        found = (holder(os.path.join(self.folder, claim.name)) for claim in self.claims)
        return tuple(dict.fromkeys(filter(None, found)))

    @contextmanager
    def held(self, waits: Callable[[], None], goes_on: Callable[[], None]) -> Iterator[None]:
        """Hold the device inside ``with``.

        Args:
            waits: called when another program has it.
            goes_on: called when the wait is over.

        Raises:
            NoLocks: the folder is not fit for locks any more.
        """
        with ExitStack() as files:
            waiting = False

            def wait() -> None:
                nonlocal waiting
                if not waiting:
                    waiting = True
                    waits()

            try:
                for claim in self.claims:
                    files.enter_context(_held(self.folder, claim, wait))
            finally:
                if waiting:
                    goes_on()
            yield


@contextmanager
def _held(folder: str, claim: Claim, wait: Callable[[], None]) -> Iterator[None]:
    while True:
        file = open_lock(folder, claim.name)
        try:
            mine = _lock(folder, claim, file, wait)
            if still_there(folder, claim.name, file):
                break
        except BaseException:
            os.close(file)
            raise
        os.close(file)  # somebody removed it meanwhile: others lock another
    _open.add(file)
    try:
        yield
    finally:
        if file in _open:  # not in a process that was forked inside
            _open.discard(file)
            if mine:  # a process that was started inside may have a copy of the descriptor
                fcntl.flock(file, fcntl.LOCK_UN)
            os.close(file)


def _lock(folder: str, claim: Claim, file: int, wait: Callable[[], None]) -> bool:
    """Wait for a lock; return False if an ancestor holds it on behalf of this process."""
    how = fcntl.LOCK_SH if claim.shared else fcntl.LOCK_EX
    queue = open_lock(folder, claim.name + _QUEUE)
    try:
        for one, kind in ((queue, fcntl.LOCK_EX), (file, how)):
            if not _now(one, kind):
                if held_by_ancestor(file):
                    return False
                wait()
                fcntl.flock(one, kind)
        return True
    except OSError as error:
        raise NoLocks(f"{folder} cannot be used for locks: {error.strerror}") from error
    finally:
        os.close(queue)


def _now(file: int, how: int) -> bool:
    """Take a lock if it is free."""
    try:
        fcntl.flock(file, how | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
