"""TVM's `auto_scheduler.search_policy`."""

from typing import TYPE_CHECKING

from autotune.auto_scheduler import (
    EmptyPolicy,
    PreloadCustomSketchRule,
    PreloadMeasuredStates,
    SketchPolicy,
)
from autotune.auto_scheduler.search_policy import SearchPolicy
from autotune.tvm.names import resolver

__all__ = [
    "EmptyPolicy",
    "PreloadCustomSketchRule",
    "PreloadMeasuredStates",
    "SearchPolicy",
    "SketchPolicy",
]

if not TYPE_CHECKING:
    __getattr__ = resolver(__name__)
