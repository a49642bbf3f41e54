"""The auto-scheduler: fast kernels from a definition alone, without a template.

A `SearchTask` is what is to be made fast; `auto_schedule` searches one task, `TaskScheduler` those
of a network. `sketch` derives structures by rules, `search` chooses their numbers by cost models,
and a `StateObject` is the list of `transform_steps` that results, which replays on a schedule and
is what `records` keep.
"""

from typing import TYPE_CHECKING

from autotune.auto_scheduler import feature, workload_registry
from autotune.auto_scheduler.cost_model import CostModel, PythonBasedModel, RandomModel, XGBModel
from autotune.auto_scheduler.fallback import fallback_schedule
from autotune.auto_scheduler.layouts.layout_graph import LayoutRewriteOption
from autotune.auto_scheduler.measuring.measure_input import MeasureInput, RecordedTask
from autotune.auto_scheduler.measuring.measure_options import (
    LocalBuilder,
    LocalRPCMeasureContext,
    LocalRunner,
    PythonBasedMeasureCallback,
    RPCRunner,
    TuningOptions,
)
from autotune.auto_scheduler.measuring.program_measurer import ProgramMeasurer
from autotune.auto_scheduler.problem.compute_dag import ComputeDAG
from autotune.auto_scheduler.problem.equivalent_keys import equivalent_keys, structural_hash
from autotune.auto_scheduler.problem.hardware_params import HardwareParams
from autotune.auto_scheduler.records import codec as record_codec
from autotune.auto_scheduler.records.best import (
    FAR,
    decode_workload_key,
    fair,
    load_best,
    load_best_record,
    workload_distance,
)
from autotune.auto_scheduler.records.file import (
    RecordReader,
    RecordToFile,
    load_records,
    save_records,
)
from autotune.auto_scheduler.search.tuner import SketchTuner
from autotune.auto_scheduler.search_policy import (
    EmptyPolicy,
    PreloadMeasuredStates,
    SketchPolicy,
)
from autotune.auto_scheduler.search_task import SearchTask, create_task, recover_measure_input
from autotune.auto_scheduler.sketch import PreloadCustomSketchRule
from autotune.auto_scheduler.states.loop_state import StateObject
from autotune.auto_scheduler.states.recorded_state import RecordedState
from autotune.auto_scheduler.states.state import State
from autotune.auto_scheduler.task_scheduler import (
    LogEstimatedLatency,
    PrintTableInfo,
    TaskScheduler,
    TaskSchedulerCallback,
)
from autotune.auto_scheduler.tune_task import auto_schedule
from autotune.auto_scheduler.workload_registry import make_workload_key, register_workload
from autotune.utils.names import lazy

__all__ = [
    "FAR",
    "ComputeDAG",
    "CostModel",
    "EmptyPolicy",
    "HardwareParams",
    "LayoutRewriteOption",
    "LocalBuilder",
    "LocalRPCMeasureContext",
    "LocalRunner",
    "LogEstimatedLatency",
    "MeasureInput",
    "PreloadCustomSketchRule",
    "PreloadMeasuredStates",
    "PrintTableInfo",
    "ProgramMeasurer",
    "PythonBasedMeasureCallback",
    "PythonBasedModel",
    "RPCRunner",
    "RandomModel",
    "RecordReader",
    "RecordToFile",
    "RecordedState",
    "RecordedTask",
    "SearchTask",
    "SketchPolicy",
    "SketchTuner",
    "State",
    "StateObject",
    "TaskScheduler",
    "TaskSchedulerCallback",
    "TuningOptions",
    "XGBModel",
    "auto_schedule",
    "create_task",
    "decode_workload_key",
    "equivalent_keys",
    "fair",
    "fallback_schedule",
    "feature",
    "load_best",
    "load_best_record",
    "load_records",
    "make_workload_key",
    "record_codec",
    "recover_measure_input",
    "register_workload",
    "save_records",
    "structural_hash",
    "workload_distance",
    "workload_registry",
]

if not TYPE_CHECKING:
    # What TVM has here and we have elsewhere: networks and TVM's names, of rows above.
    _LENT = (
        "ApplyHistoryBest ApplyHistoryBestOrSample DispatchContext MeasureCallback MeasureErrorNo "
        "MeasureResult compute_dag dispatcher extract_tasks get_shape_from_rewritten_layout "
        "is_auto_scheduler_enabled loop_state measure register_task_input_check_func "
        "relay_integration utils"
    )
    _HOMES = {name: f"autotune.tvm.auto_scheduler:{name}" for name in _LENT.split()}
    __getattr__ = lazy(__name__, {"measure_record": f"{__name__}.measure_record"} | _HOMES)
