"""The time budget of tuning a network, over all calls that a log records."""

from __future__ import annotations

import time
from collections.abc import Callable

# Part of the time that is kept for compiling finalists and for their race: at least, and at most
# where compiling takes long.
FOR_THE_RACE, MOST_FOR_THE_RACE = 0.15, 0.4


class Budget:
    """Counts from its making on.

    Args:
        seconds: in all.
        clock: returns seconds.

    Attributes:
        before_s: seconds that earlier calls took.
    """

    def __init__(self, seconds: float, clock: Callable[[], float] = time.monotonic) -> None:
        self.seconds = seconds
        self.before_s = 0.0
        self._kept_s = FOR_THE_RACE * seconds
        self._clock = clock
        self._began = clock()

    def elapsed_s(self) -> float:
        """Return the seconds spent, those of earlier calls included."""
        return self.before_s + self._clock() - self._began

    def left_s(self) -> float:
        """Return the seconds that are left; below 0 where too many were spent."""
        return self.seconds - self.elapsed_s()

    def left_for_trials_s(self) -> float:
        """Return the seconds that are left without those that are kept for the race."""
        return self.left_s() - self._kept_s

    def keep_for_the_race(self, expected_s: float) -> None:
        """Say how long compiling finalists is expected to take."""
        most_s = MOST_FOR_THE_RACE * max(self.left_s(), 0.0)
        self._kept_s = max(self._kept_s, min(expected_s, most_s))
