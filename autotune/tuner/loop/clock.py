"""The time that a run has: since when it is made, since when it is at work, and until when."""

from __future__ import annotations

import math
import time


class RunClock:
    """Tells a run, in seconds, what its limit and that of the `advance` under way leave it.

    Args:
        limit_s: seconds that the run may take from `begin` on; None for no end.
    """

    def __init__(self, limit_s: float | None) -> None:
        self._limit_s = limit_s
        self._made = time.monotonic()
        self._began = self._paused = math.inf

    def begin(self) -> bool:
        """Note that the run is at work; return whether it is only from now on."""
        first = self._began == math.inf
        if first:
            self._began = time.monotonic()
        return first

    def pause_in(self, timeout_s: float | None) -> None:
        """Let a part of the run end then; what is under way by then belongs to its next part."""
        self._paused = math.inf if timeout_s is None else time.monotonic() + timeout_s

    @property
    def paused(self) -> bool:
        """Whether the part of the run that is under way is at its end."""
        return time.monotonic() >= self._paused

    @property
    def elapsed_s(self) -> float:
        """Seconds since the run began to work."""
        return time.monotonic() - self._began

    @property
    def wall_s(self) -> float:
        """Seconds since the run was made."""
        return time.monotonic() - self._made

    @property
    def left_s(self) -> float | None:
        """Seconds that are left, of the part under way too; None where there is no end."""
        return _seconds_to(min(self._paused, self._end))

    @property
    def run_left_s(self) -> float | None:
        """Seconds that are left of the whole run; None where there is no end."""
        return _seconds_to(self._end)

    @property
    def _end(self) -> float:
        return math.inf if self._limit_s is None else self._began + self._limit_s


def _seconds_to(end: float) -> float | None:
    return None if math.isinf(end) else max(0.0, end - time.monotonic())
