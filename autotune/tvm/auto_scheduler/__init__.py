"""TVM's `auto_scheduler`."""

from typing import TYPE_CHECKING

from autotune.auto_scheduler import *
from autotune.auto_scheduler import __all__ as _ours
from autotune.measure.types import MeasureErrorNo
from autotune.tvm.auto_scheduler import (
    compute_dag,
    loop_state,
    measure,
    measure_record,
    search_task,
    utils,
)
from autotune.tvm.auto_scheduler.measure import MeasureResult
from autotune.tvm.names import resolver

__all__ = [
    *_ours,
    "MeasureErrorNo",
    "MeasureResult",
    "compute_dag",
    "loop_state",
    "measure",
    "measure_record",
    "search_task",
    "utils",
]

if not TYPE_CHECKING:
    __getattr__ = resolver(__name__)
