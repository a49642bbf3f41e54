"""TVM's `auto_scheduler`."""

from autotune.auto_scheduler import *
from autotune.auto_scheduler import __all__ as _ours
from autotune.measure.types import MeasureErrorNo
from autotune.network import ApplyHistoryBest, ApplyHistoryBestOrSample
from autotune.tvm.auto_scheduler import _ffi_api as _ffi_api
from autotune.tvm.auto_scheduler import (
    compute_dag,
    cost_model,
    dispatcher,
    loop_state,
    measure,
    measure_record,
    relay_integration,
    search_policy,
    search_task,
    task_scheduler,
    utils,
)
from autotune.tvm.auto_scheduler.compute_dag import get_shape_from_rewritten_layout
from autotune.tvm.auto_scheduler.dispatcher import DispatchContext
from autotune.tvm.auto_scheduler.measure import (
    MeasureCallback,
    MeasureResult,
    register_task_input_check_func,
)
from autotune.tvm.auto_scheduler.relay_integration import extract_tasks, is_auto_scheduler_enabled
from autotune.tvm.auto_scheduler.search_policy import SketchPolicy as SketchPolicy

__all__ = [
    *_ours,
    "ApplyHistoryBest",
    "ApplyHistoryBestOrSample",
    "DispatchContext",
    "MeasureCallback",
    "MeasureErrorNo",
    "MeasureResult",
    "compute_dag",
    "cost_model",
    "dispatcher",
    "extract_tasks",
    "get_shape_from_rewritten_layout",
    "is_auto_scheduler_enabled",
    "loop_state",
    "measure",
    "measure_record",
    "register_task_input_check_func",
    "relay_integration",
    "search_policy",
    "search_task",
    "task_scheduler",
    "utils",
]
