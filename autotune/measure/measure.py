"""AutoTVM's name for the place of the types and of `measure_option`."""

from autotune.measure.base import Builder, Runner
from autotune.measure.option import create_measure_batch, measure_option
from autotune.measure.types import BuildResult, MeasureErrorNo, MeasureInput, MeasureResult

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
