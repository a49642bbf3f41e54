"""TVM's `auto_scheduler.search_policy`."""

from autotune.auto_scheduler import (
    EmptyPolicy,
    PreloadCustomSketchRule,
    PreloadMeasuredStates,
    SketchPolicy,
)
from autotune.auto_scheduler.search_policy import SearchPolicy

__all__ = [
    "EmptyPolicy",
    "PreloadCustomSketchRule",
    "PreloadMeasuredStates",
    "SearchPolicy",
    "SketchPolicy",
]
