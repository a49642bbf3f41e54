"""A queue of the work of several clients, each of which gets its share of the time, by weight.

Start-time fair queueing (Goyal, Vin and Cheng, SIGCOMM 1996). A client is charged for the time
that its work took, after the work has ended, since the time of a trial is not known before.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable
from typing import Generic, TypeVar

Work = TypeVar("Work")

# The number of clients without waiting work that are remembered: those that used the most time.
_MOST_IDLE = 64


class FairQueue(Generic[Work]):
    """Serves the client that used the least time relative to its weight.

    Safe to use from several threads.
    """

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._waiting: dict[str, deque[tuple[float, Work]]] = {}
        self._used: dict[str, float] = {}
        # The virtual time: what the client that was served last had used. A client that returns
        # starts from it, so that no credit accumulates while it is away.
        self._now = 0.0
        self._closed = False

    def __len__(self) -> int:
        return sum(len(line) for line in list(self._waiting.values()))

    def put(self, client: str, weight: float, work: Work) -> None:
        """Queue work of a client; twice the weight gets twice the time."""
        with self._changed:
            if client not in self._waiting:
                self._waiting[client] = deque()
                self._used[client] = max(self._now, self._used.get(client, 0.0))
                if len(self._used) > len(self._waiting) + 2 * _MOST_IDLE:
                    self._forget_some()
            self._waiting[client].append((weight, work))
            self._changed.notify()

    def _forget_some(self) -> None:
        """Forget most clients without waiting work, such as those that were killed."""
        idle = [client for client in self._used if client not in self._waiting]
        idle.sort(key=lambda client: self._used[client])
        for client in idle[:-_MOST_IDLE]:
            del self._used[client]

    def take(self) -> tuple[Work, Callable[[float], None]] | None:
        """Wait for work and return it; return None after `close`.

        Returns:
            The work, and a function to be called with the seconds that the work took.
        """
        with self._changed:
            while not self._waiting and not self._closed:
                self._changed.wait()
            if self._closed:
                return None
            client = min(self._waiting, key=lambda name: self._used[name])
            self._now = self._used[client]
            line = self._waiting[client]
            weight, work = line.popleft()
            if not line:
                del self._waiting[client]

        def charge(seconds: float) -> None:
            with self._changed:
                self._used[client] = self._used.get(client, self._now) + seconds / weight

        return work, charge

    def drop(self, client: str) -> list[Work]:
        """Remove all waiting work of a client and return it."""
        with self._changed:
            self._used.pop(client, None)
            return [work for _, work in self._waiting.pop(client, deque())]

    def close(self) -> list[Work]:
        """Return all waiting work; from now on `take` returns None."""
        with self._changed:
            self._closed = True
            left = [work for line in self._waiting.values() for _, work in line]
            self._waiting.clear()
            self._changed.notify_all()
        return left
