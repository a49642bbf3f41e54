"""AutoTVM's `measure.measure_methods`: builders and runners."""

from typing import TYPE_CHECKING

from autotune.errors import InstantiationError
from autotune.measure import (
    Builder,
    BuildResult,
    LocalBuilder,
    LocalRunner,
    MeasureErrorNo,
    MeasureInput,
    MeasureResult,
    Runner,
)
from autotune.tvm.names import resolver

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
