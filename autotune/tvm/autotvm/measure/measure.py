"""AutoTVM's `measure.measure`: the types and `measure_option`."""

from typing import TYPE_CHECKING

from autotune.measure import (
    Builder,
    BuildResult,
    MeasureErrorNo,
    MeasureInput,
    MeasureResult,
    Runner,
    create_measure_batch,
    measure_option,
)
from autotune.tvm.names import resolver

__all__ = [
    "BuildResult",
    "Builder",
    "MeasureErrorNo",
    "MeasureInput",
    "MeasureResult",
    "Runner",
    "create_measure_batch",
    "measure_option",
]

if not TYPE_CHECKING:
    __getattr__ = resolver(__name__)
