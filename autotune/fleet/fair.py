"""Work of several clients in line for one place: each gets its share of the time, by weight.

Start-time fair queueing (Goyal, Vin and Cheng, SIGCOMM 1996), charged by what was really used:
how long a trial takes is known when it has ended.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable
from typing import Generic, TypeVar

Work = TypeVar("Work")

# Clients that are remembered though nothing of theirs waits: those that used the most.
_MOST_IDLE = 64


class FairQueue(Generic[Work]):
    """Schedules the client with the least time for its weight (fair queuing). From any thread."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._waiting: dict[str, deque[tuple[float, Work]]] = {}
        self._used: dict[str, float] = {}
        # What the client that was served last had used: nobody saves up time by staying away.
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
        """Forget of whom nothing waits, as of clients that were killed, but for a few."""
        idle = [client for client in self._used if client not in self._waiting]
        idle.sort(key=lambda client: self._used[client])
        for client in idle[:-_MOST_IDLE]:
            del self._used[client]

    def take(self) -> tuple[Work, Callable[[float], None]] | None:
        """Wait for work; None when all is over.

        Returns:
            The work, and what to call with the seconds that it took.
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
        """Take back and return all work of a client that waits."""
        with self._changed:
            self._used.pop(client, None)
            return [work for _, work in self._waiting.pop(client, deque())]

    def close(self) -> list[Work]:
        """Give out nothing any more, and return what waits."""
        with self._changed:
            self._closed = True
            left = [work for line in self._waiting.values() for _, work in line]
            self._waiting.clear()
            self._changed.notify_all()
        return left
