"""AutoTVM's `measure.measure`: the types and `measure_option`."""

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
