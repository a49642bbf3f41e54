"""TVM's time evaluator: its arguments, and its results."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from autotune.errors import KernelError
from autotune.runtime.timing import TimeOptions, Timing
from autotune.utils.check import Check


@dataclass(frozen=True)
class BenchmarkResult:
    """The result of a time evaluator; all times are seconds per run.

    Attributes:
        results: one entry for each repeat, without disturbed ones (`Timing.dropped`) that were not
            taken again.
        timing: everything else that is known of them.
    """

    results: tuple[float, ...]
    timing: Timing

    @property
    def mean(self) -> float:
        """Mean of the results."""
        return float(np.mean(self.results))

    @property
    def median(self) -> float:
        """Median of the results."""
        return float(np.median(self.results))

    @property
    def min(self) -> float:
        """Least result."""
        return min(self.results)

    @property
    def max(self) -> float:
        """Greatest result."""
        return max(self.results)

    @property
    def std(self) -> float:
        """Standard deviation of the results."""
        return float(np.std(self.results))

    def __str__(self) -> str:
        numbers = (self.mean, self.median, self.max, self.min, self.std)
        names = ("mean", "median", "max", "min", "std")
        cells = (f"{n} {x * 1e3:.4g} ms" for n, x in zip(names, numbers, strict=True))
        return "  ".join(cells)


def evaluator_options(
    number: int = 10,
    repeat: int = 1,
    min_repeat_ms: float = 0,
    limit_zero_time_iterations: int = 100,
    cooldown_interval_ms: float = 0,
    repeats_to_cooldown: int = 1,
    cache_flush_bytes: int = 0,
    f_preproc: str = "",
) -> TimeOptions:
    """Return how to time, from the arguments of `Module.time_evaluator`.

    Raises:
        KernelError: a number is out of range.
    """
    check = Check(KernelError, "time_evaluator")
    check.whole("number", number, least=1)
    check.whole("repeat", repeat, least=1)
    check.number("min_repeat_ms", min_repeat_ms, least=0)
    check.number("cooldown_interval_ms", cooldown_interval_ms, least=0)
    check.whole("repeats_to_cooldown", repeats_to_cooldown, least=1)
    check.whole("cache_flush_bytes", cache_flush_bytes, least=0)
    check.whole("limit_zero_time_iterations", limit_zero_time_iterations, least=0)
    check.one_of("f_preproc", f_preproc, ("", "cache_flush_cpu_non_first_arg"))
    return TimeOptions(
        number=number,
        repeat=repeat,
        min_repeat_ms=min_repeat_ms,
        cooldown_interval_s=cooldown_interval_ms * 1e-3,
        repeats_to_cooldown=repeats_to_cooldown,
        flush_cache=bool(cache_flush_bytes or f_preproc),
        input_sets=1,
    )
