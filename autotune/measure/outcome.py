"""Converts what a build or a run ended with to a `MeasureResult`, also where a script made it."""

from __future__ import annotations

import math
import time
from collections.abc import Sequence

from autotune.measure.evidence import Evidence
from autotune.measure.types import LEAST_S, BuildResult, MeasureErrorNo, MeasureResult

Outcome = BuildResult | MeasureResult


def as_result(outcome: Outcome) -> MeasureResult:
    """Return the result of a trial that ended.

    A failed build becomes a result. A runner written for AutoTVM puts text and exceptions where
    costs belong; they become the message. One that says that a trial did not fail, and gives no
    times (NaN, 0, nothing), failed to measure it.
    """
    if isinstance(outcome, BuildResult):
        return MeasureResult(
            costs=(),
            error_no=outcome.error_no,
            all_cost=outcome.time_cost,
            timestamp=time.time(),
            error_msg=outcome.error_msg,
            evidence=Evidence(resources=outcome.resources or None),
        )
    if outcome.error_no == MeasureErrorNo.NO_ERROR:
        return outcome if _are_times(outcome.costs) else _unmeasured(outcome)
    foreign = [str(c) for c in outcome.costs if not isinstance(c, (int, float))]
    message = outcome.error_msg or "\n".join(reversed(foreign))
    return outcome._replace(costs=(), error_msg=message)


def _are_times(costs: Sequence[object]) -> bool:
    """Whether there are times, of which there is a mean: what a record of a good trial holds."""
    times = [cost for cost in costs if isinstance(cost, (int, float)) and cost >= LEAST_S]
    return 0 < len(times) == len(costs) and math.isfinite(sum(times))


def _unmeasured(outcome: MeasureResult) -> MeasureResult:
    given = f"({', '.join(map(str, outcome.costs))})"[:200]
    problem = f"the runner gave {given} as times: expected seconds of at least {LEAST_S:g}"
    return outcome._replace(costs=(), error_no=MeasureErrorNo.UNKNOWN_ERROR, error_msg=problem)


def mark_result(result: MeasureResult, built: Outcome, clock: TrialClock) -> MeasureResult:
    """Note in a result which kernel it is of, and when what was done, where that is known."""
    if not isinstance(built, BuildResult):
        return result
    return built.mark(result, clock.stages(built.time_cost, result))


class TrialClock:
    """The times at which one trial passed its stages, by the clock of this host.

    Attributes:
        asked: when it was submitted, in seconds since the epoch.
        built: when its build had ended.
    """

    __slots__ = ("asked", "built")

    def __init__(self) -> None:
        self.asked = self.built = time.time()

    def stages(self, build_s: float, result: MeasureResult) -> tuple[float, ...]:
        """Return the stages of a trial that ended, see `Evidence.stages`.

        Args:
            build_s: seconds that its build took; the rest of what it took was its run.
            result: of the trial.
        """
        run_s = result.all_cost - build_s
        past = [self.asked, self.built - build_s, self.built]
        if run_s > 0:
            past.append(result.timestamp - run_s)
        # Clocks of hosts are set now and then, and what is derived has an error of its own.
        least, before = 0.0, []
        for moment in reversed(past):
            least = max(least, round(result.timestamp - moment, 4))
            before.append(least)
        return tuple(reversed(before))
