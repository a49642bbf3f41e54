"""What Kernel Tuner's scripts optimise: the time, an observable or a metric."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from autotune.errors import TunerError
from autotune.kernel_tuner.observers.nvml import NVMLObserver
from autotune.kernel_tuner.results import Metric, Result, add_metrics
from autotune.measure.objective import TIME, Objective
from autotune.measure.types import MeasureInput, MeasureResult
from autotune.utils.check import shown

# Names of which scripts need not say that more is better.
_HIGHER = ("GFLOP/s", "TFLOP/s", "GB/s", "TB/s", "GFLOPS/W", "TFLOPS/W", "GFLOP/J", "TFLOP/J")


@dataclass(frozen=True)
class Wanted:
    """What is best.

    Attributes:
        name: of an item of results.
        higher: whether more of it is better.
        metrics: added to results.
        energy: whether energy is measured.
        later: whether results may have it only when all are measured; the search does without.
    """

    name: str
    higher: bool
    metrics: Mapping[str, Metric]
    energy: bool
    later: bool = False

    def check(self, results: Sequence[Result]) -> None:
        """Raise if no result has what is wanted.

        Raises:
            TunerError: it was to come, and has not.
        """
        if results and not any(self.name in each for each in results):
            known = ", ".join(results[0])
            raise TunerError(f"objective: expected one of {known}, got {shown(self.name)}")

    def objective(self, result_of: Callable[[MeasureInput, MeasureResult], Result]) -> Objective:
        """Return the objective that the strategy minimises."""
        if self.name == "time" or self.later:
            return TIME

        def cost(inp: MeasureInput, result: MeasureResult) -> float:
            found = result_of(inp, result)
            add_metrics(found, self.metrics)
            value = float(found.get(self.name, math.nan))
            if not self.higher:
                return value
            return 1 / value if value > 0 else math.inf

        return Objective(self.name, cost, self.energy)


def wanted_of(
    objective: str | None,
    higher: bool | None,
    metrics: Mapping[str, Metric],
    observers: Sequence[NVMLObserver],
    held: Iterable[str] = (),
    own: bool = False,
    later: bool = False,
) -> Wanted:
    """Return what is best.

    Args:
        objective, higher: its name, and whether more of it is better.
        metrics: added to results.
        observers: bring items of results.
        held: other items of results, of a cache.
        own: whether observers of the user's own add items when all configurations are measured.
        later: whether what is best may be one of these, as the strategy need not know it.

    Raises:
        TunerError: there is no such item of results.
    """
    observed = [name for each in observers for name in each.observables]
    name = objective or "time"
    known = list(dict.fromkeys(["time", *observed, *metrics, *held]))
    later = own and later and name != "time"
    if name not in known and not later:
        only = "; what observers of your own add is the objective of strategy='brute_force' and "
        only += "'random_sample' alone, as they are asked after the search"
        expected = f"expected one of {', '.join(known)}, got {shown(name)}"
        raise TunerError(f"objective: {expected}{only if own else ''}")
    more = name in _HIGHER if higher is None else bool(higher)
    return Wanted(name, more, metrics, any(each.energy for each in observers), later)
