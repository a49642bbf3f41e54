"""Deadlines that count only the time in which this process ran.

Ctrl-Z, ``docker pause`` and a batch system suspend a process together with what it waits for.
After it is resumed the clock shows that minutes have passed, although nothing is late.
"""

from __future__ import annotations

import time

# Who waits looks again after so long.
LOOK_S = 0.5
# What counts at most from one look to the next: a busy host is late, too.
_MOST_S = 1.0


class Deadline:
    """A number of seconds from now on; `left_s` must be called at least every `LOOK_S`."""

    def __init__(self, seconds: float) -> None:
        self._left_s = seconds
        self._looked = time.monotonic()

    def left_s(self, *, counts: bool = True) -> float:
        """Return how many seconds are left.

        Args:
            counts: whether what has passed since this was asked last counts.
        """
        now = time.monotonic()
        if counts:
            self._left_s -= min(now - self._looked, _MOST_S)
        self._looked = now
        return max(0.0, self._left_s)
