"""The store of records that processes share, and from which calls take configurations."""

from __future__ import annotations

import fcntl
import hashlib
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

from autotune.record import ApplyHistoryBest, Database, open_database
from autotune.record.paths import LogPath
from autotune.task import Task
from autotune.utils import environment

# How long what was read is taken to be all that there is.
_FRESH_S = 1.0


class RecordStore:
    """A database of records, which is read again after it was written.

    Args:
        where: any argument of `open_database`; by default a log in this user's cache folder.
    """

    def __init__(self, where: LogPath | Database | None = None) -> None:
        self.database = open_database(where or environment.cache_dir() / "jit.log")
        self._lock = threading.Lock()
        self._history = ApplyHistoryBest()
        self._state: object = None
        self._looked = -1.0
        self.version = 0

    def history(self) -> ApplyHistoryBest:
        """Return the best that the database holds."""
        self.look()
        return self._history

    def look(self) -> int:
        """Read what others have written; return a number that grows when they have."""
        if time.monotonic() - self._looked < _FRESH_S:  # every call asks
            return self.version
        with self._lock:
            if time.monotonic() - self._looked < _FRESH_S:
                return self.version
            return self._read()

    def read_again(self) -> None:
        """Read what was written by this process."""
        with self._lock:
            self._read()

    def _read(self) -> int:
        state = self.database.state()
        if self.version == 0 or state != self._state:
            self._history = ApplyHistoryBest(self.database)
            self._state = state
            self.version += 1
        self._looked = time.monotonic()
        return self.version


@contextmanager
def claimed(task: Task, wait: bool) -> Iterator[bool]:
    """Give whether this process is the one on this machine that tunes a task now.

    Args:
        task: what is tuned.
        wait: whether to wait until no other does; then it is this one.
    """
    digest = hashlib.sha256(f"{task.key} {task.target}".encode()).hexdigest()[:24]
    path = environment.cache_dir() / "jit" / f"{digest}.lock"
    mine = True
    with ExitStack() as held:
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            file = held.enter_context(path.open("ab"))
            fcntl.flock(file, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
        except BlockingIOError:
            mine = False
        except OSError:  # a folder that cannot be written, or has no locks, keeps nobody from it
            pass
        yield mine
