"""The parts of a record that all formats share."""

from __future__ import annotations

import math
from collections.abc import Mapping
from functools import lru_cache
from typing import Any

from autotune.measure.types import MeasureErrorNo, MeasureInput, MeasureResult
from autotune.target import Target
from autotune.task import ConfigEntity

Pair = tuple[MeasureInput, MeasureResult]


@lru_cache(maxsize=1024)
def target_of(text: str) -> Target:
    """Return the target of a log's target string."""
    return Target(text)


def result_from_json(
    values: Any, error_msg: str = "", extra: Mapping[str, Any] | None = None
) -> MeasureResult:
    """Read ``[costs, error_no, all_cost, timestamp]``; a failed trial has no costs.

    Raises:
        ValueError, TypeError: it is something else, or a good trial without a time.
    """
    costs, number, all_cost, timestamp = values
    error_no = int(MeasureErrorNo(number))
    kept = tuple(float(cost) for cost in costs) if error_no == 0 else ()
    if error_no == 0 and not (kept and all(0 <= cost < math.inf for cost in kept)):
        raise ValueError(f"a trial that did not fail has times, not {costs}")
    return MeasureResult(
        kept, error_no, float(all_cost), float(timestamp), error_msg, dict(extra or {})
    )


def config_from_json(data: Any) -> ConfigEntity:
    """Read what `ConfigEntity.to_json_dict` wrote.

    Raises:
        TypeError: its index is no whole number from 0 on.
    """
    config = ConfigEntity.from_json_dict(data)
    if type(config.index) is not int or config.index < 0:
        raise TypeError(f"the index of a configuration is a whole number, not {config.index!r}")
    return config
