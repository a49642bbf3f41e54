"""TVM's `auto_scheduler.measure`."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from autotune.auto_scheduler.measure_input import MeasureInput
from autotune.auto_scheduler.recover import recover_measure_input
from autotune.measure.types import BuildResult, MeasureErrorNo
from autotune.measure.types import MeasureResult as _Result
from autotune.tvm.names import resolver

__all__ = [
    "BuildResult",
    "MeasureErrorNo",
    "MeasureInput",
    "MeasureResult",
    "recover_measure_input",
]


def MeasureResult(
    costs: Sequence[float], error_no: int, error_msg: str, all_cost: float, timestamp: float
) -> _Result:
    """Return a result; the auto-scheduler's order of arguments is another than AutoTVM's."""
    kept = tuple(map(float, costs)) if error_no == MeasureErrorNo.NO_ERROR else ()
    return _Result(kept, int(error_no), float(all_cost), float(timestamp), error_msg or "")


if not TYPE_CHECKING:
    __getattr__ = resolver(__name__)
