"""AutoTVM's name for the place of the builders and runners."""

from typing import TYPE_CHECKING

from autotune.errors import InstantiationError
from autotune.measure.base import Builder, Runner
from autotune.measure.builder import LocalBuilder
from autotune.measure.runner import LocalRunner
from autotune.measure.types import BuildResult, MeasureErrorNo, MeasureInput, MeasureResult
from autotune.migration import resolver

__all__ = [
    "BuildResult",
    "Builder",
    "InstantiationError",
    "LocalBuilder",
    "LocalRunner",
    "MeasureErrorNo",
    "MeasureInput",
    "MeasureResult",
    "Runner",
]

if not TYPE_CHECKING:
    __getattr__ = resolver(__name__)
