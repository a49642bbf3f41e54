"""Deadlines that count only the time in which what is waited for could run.

Ctrl-Z, ``docker pause`` and a batch system suspend a process together with what it waits for.
After it is resumed the clock shows that minutes have passed, although nothing is late. On a busy
host a process may wait for a processor many times as long as it runs; it does not hang, either.
"""

from __future__ import annotations

import math
import time

from autotune.utils.processor_time import ProcessorTime

# Who waits looks again after so long.
LOOK_S = 0.5
# What counts at most from one look to the next: a busy host is late, too.
_MOST_S = 1.0
# No pause before a look at processes is shorter.
_LEAST_S = 0.01


class Deadline:
    """A number of seconds from now on; `left_s` must be called at least every `LOOK_S`.

    Args:
        seconds: how many.
        waits_for: process id of what is waited for. Time in which it, or what it started, waits
            for a processor hardly counts (`ProcessorTime`).
    """

    def __init__(self, seconds: float, waits_for: int | None = None) -> None:
        self._seconds = seconds
        self._counted_s = 0.0
        self._looked = time.monotonic()
        self._processors: ProcessorTime | None = None
        if waits_for is not None and not math.isinf(seconds):
            self._processors = ProcessorTime(waits_for)

    def left_s(self, *, counts: bool = True) -> float:
        """Return how many seconds are left, at least.

        Args:
            counts: whether what has passed since this was asked last counts.
        """
        passed_s = time.monotonic() - self._looked
        left_s = self._seconds - self._counted_s
        if counts and self._processors and passed_s < min(LOOK_S, left_s):
            return left_s - passed_s  # looking at processes takes time
        self._looked += passed_s
        if counts:
            passed_s = min(passed_s, _MOST_S)
            counted_s = self._processors.counted_s(passed_s) if self._processors else passed_s
            self._counted_s += counted_s
            left_s -= counted_s
        least_s = _LEAST_S if self._processors and left_s > 0 else 0.0
        return max(least_s, left_s)

    @property
    def counted_s(self) -> float:
        """The seconds that counted so far; all of those since the last look do."""
        return self._counted_s + min(time.monotonic() - self._looked, _MOST_S)
