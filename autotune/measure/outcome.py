"""The result of a trial that ended, in one form whoever made it."""

from __future__ import annotations

import time

from autotune.measure.evidence import Evidence
from autotune.measure.types import BuildResult, MeasureErrorNo, MeasureResult

Outcome = BuildResult | MeasureResult


def as_result(outcome: Outcome) -> MeasureResult:
    """Return the result of a trial that ended.

    A failed build becomes a result. A runner written for AutoTVM puts text and exceptions where
    costs belong; they become the message.
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
        return outcome
    foreign = [str(c) for c in outcome.costs if not isinstance(c, (int, float))]
    message = outcome.error_msg or "\n".join(reversed(foreign))
    return outcome._replace(costs=(), error_msg=message)


def marked(result: MeasureResult, built: Outcome) -> MeasureResult:
    """Note in a result which kernel it is of, where that is known."""
    return built.mark(result) if isinstance(built, BuildResult) else result
