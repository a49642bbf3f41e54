"""The state of a run that all views of its progress show."""

from __future__ import annotations

from dataclasses import dataclass

from autotune.utils.quantities import duration


@dataclass(frozen=True)
class RunState:
    """The progress of a run.

    Attributes:
        prefix: text in front.
        total: trials in all, at most.
        done: trials made, those of an earlier run included.
        resumed: trials of an earlier run.
        failed: trials of this run that failed.
        best: the best so far, in words; empty before the first success.
        elapsed_s: seconds since the first trial was asked for.
        to_come: trials until the run gives up, if none is better than the best; None if unknown.
        limit_s: seconds that the run has left; None without a limit.
    """

    prefix: str
    total: int
    done: int = 0
    resumed: int = 0
    failed: int = 0
    best: str = ""
    elapsed_s: float = 0.0
    to_come: int | None = None
    limit_s: float | None = None

    @property
    def rate(self) -> float:
        """Trials of this run per second."""
        return (self.done - self.resumed) / self.elapsed_s if self.elapsed_s > 0 else 0.0

    @property
    def left_s(self) -> float | None:
        """Seconds until the run ends, at this rate; None without one, and at the end."""
        left = self.total - self.done
        left = left if self.to_come is None else min(left, self.to_come)
        if self.rate <= 0 or left <= 0:
            return None
        seconds = left / self.rate
        return seconds if self.limit_s is None else min(seconds, self.limit_s)

    def __str__(self) -> str:
        left = "" if self.left_s is None else f", {duration(self.left_s)} left"
        return (
            f"{self.prefix} {self.done}/{self.total} trials, best {self.best or 'none yet'}, "
            f"{self.rate:.1f} trials/s, {self.failed} failed{left}"
        ).lstrip()
