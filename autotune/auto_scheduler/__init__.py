"""The auto-scheduler: fast kernels from a definition alone, without a template."""

from autotune.auto_scheduler import workload_registry
from autotune.auto_scheduler.best_record import load_best, load_best_record
from autotune.auto_scheduler.compute_dag import ComputeDAG
from autotune.auto_scheduler.cost_model import CostModel, PythonBasedModel, RandomModel, XGBModel
from autotune.auto_scheduler.hardware_params import HardwareParams
from autotune.auto_scheduler.loop_state import StateObject
from autotune.auto_scheduler.measure_input import MeasureInput
from autotune.auto_scheduler.measuring import (
    LocalBuilder,
    LocalRPCMeasureContext,
    LocalRunner,
    RPCRunner,
    TuningOptions,
)
from autotune.auto_scheduler.record_file import (
    RecordReader,
    RecordToFile,
    load_records,
    save_records,
)
from autotune.auto_scheduler.recover import recover_measure_input
from autotune.auto_scheduler.search_policy import (
    EmptyPolicy,
    PreloadMeasuredStates,
    SketchPolicy,
)
from autotune.auto_scheduler.search_task import LayoutRewriteOption, SearchTask, create_task
from autotune.auto_scheduler.sketch import PreloadCustomSketchRule
from autotune.auto_scheduler.state import State
from autotune.auto_scheduler.task_scheduler import (
    LogEstimatedLatency,
    PrintTableInfo,
    TaskScheduler,
    TaskSchedulerCallback,
)
from autotune.auto_scheduler.tune_task import auto_schedule
from autotune.auto_scheduler.workload_registry import make_workload_key, register_workload

__all__ = [
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
    "PythonBasedModel",
    "RPCRunner",
    "RandomModel",
    "RecordReader",
    "RecordToFile",
    "SearchTask",
    "SketchPolicy",
    "State",
    "StateObject",
    "TaskScheduler",
    "TaskSchedulerCallback",
    "TuningOptions",
    "XGBModel",
    "auto_schedule",
    "create_task",
    "load_best",
    "load_best_record",
    "load_records",
    "make_workload_key",
    "recover_measure_input",
    "register_workload",
    "save_records",
    "workload_registry",
]
