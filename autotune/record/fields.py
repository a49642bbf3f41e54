"""The parts of a record that all formats share."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import Any

from autotune.measure.types import MeasureInput, MeasureResult
from autotune.target import Target

Pair = tuple[MeasureInput, MeasureResult]


@lru_cache(maxsize=1024)
def target_of(text: str) -> Target:
    """Return the target of a log's target string."""
    return Target(text)


def result_from_json(
    values: Any, error_msg: str = "", extra: Mapping[str, Any] | None = None
) -> MeasureResult:
    """Read ``[costs, error_no, all_cost, timestamp]``; a failed trial has no costs."""
    costs, error_no, all_cost, timestamp = values
    kept = tuple(float(cost) for cost in costs) if error_no == 0 else ()
    return MeasureResult(
        kept, int(error_no), float(all_cost), float(timestamp), error_msg, dict(extra or {})
    )
