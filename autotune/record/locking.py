"""Locks on a log: appenders take turns, and none may write while it is rewritten."""

from __future__ import annotations

import errno
import fcntl
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

_APPEND = os.O_RDWR | os.O_APPEND | os.O_CREAT
# A process that holds the lock for longer is stopped or hangs; no trial must be lost for that.
PATIENCE_S = 10.0
_PAUSES_S = (0.0005, 0.005)
# File systems that know no locks say so in these ways; all of them know appending.
_NO_LOCKS = (errno.ENOLCK, errno.ENOSYS, errno.EOPNOTSUPP, errno.EINVAL)


@contextmanager
def locked(path: Path) -> Iterator[int]:
    """Open a log for reading and appending, made with its folders when missing, and lock it.

    The file given is the one at the path: one that was replaced while it was waited for is opened
    again. Where there are no locks, or one is not given up in `PATIENCE_S`, it is opened without.

    Raises:
        OSError: it cannot be opened.
    """
    until = time.monotonic() + PATIENCE_S
    descriptor = _open(path)
    try:
        while not (_lock(descriptor, until) and _is_at(descriptor, path)):
            if time.monotonic() >= until:
                break
            os.close(descriptor)
            descriptor = -1
            descriptor = _open(path)
        yield descriptor
    finally:
        if descriptor >= 0:
            os.close(descriptor)  # gives up the lock


@contextmanager
def locked_pipe(descriptor: int) -> Iterator[int]:
    """Lock a pipe that is open and stays so."""
    _lock(descriptor, time.monotonic() + PATIENCE_S)
    try:
        yield descriptor
    finally:
        unlock(descriptor)


def unlock(descriptor: int) -> None:
    """Give up the lock before the file is closed."""
    with suppress(OSError):
        fcntl.flock(descriptor, fcntl.LOCK_UN)


def _open(path: Path) -> int:
    try:
        return os.open(path, _APPEND, 0o666)
    except FileNotFoundError:
        path.parent.mkdir(parents=True, exist_ok=True)
        return os.open(path, _APPEND, 0o666)


def _is_at(descriptor: int, path: Path) -> bool:
    try:
        return os.path.samestat(os.fstat(descriptor), os.stat(path))
    except FileNotFoundError:
        return False


def _lock(descriptor: int, until: float) -> bool:
    """Lock a file; False when time is up."""
    pause = _PAUSES_S[0]
    while True:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return True
        except BlockingIOError:
            if time.monotonic() >= until:
                return False
            time.sleep(pause)
            pause = min(2 * pause, _PAUSES_S[1])
        except OSError as error:
            if error.errno not in _NO_LOCKS:
                raise
            return True
