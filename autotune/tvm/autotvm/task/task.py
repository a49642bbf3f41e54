"""AutoTVM's `task.task`."""

from autotune.task import (
    TASK_TABLE,
    ApplyConfig,
    ApplyFixedConfig,
    DispatchContext,
    FallbackContext,
    Task,
    TaskTemplate,
    args_to_workload,
    create,
    deserialize_args,
    get_config,
    register,
    register_topi_compute,
    register_topi_schedule,
    serialize_args,
    template,
)
from autotune.te import FlopError as FlopCalculationError
from autotune.te import compute_flop

__all__ = [
    "TASK_TABLE",
    "ApplyConfig",
    "ApplyFixedConfig",
    "DispatchContext",
    "FallbackContext",
    "FlopCalculationError",
    "Task",
    "TaskTemplate",
    "args_to_workload",
    "compute_flop",
    "create",
    "deserialize_args",
    "get_config",
    "register",
    "register_topi_compute",
    "register_topi_schedule",
    "serialize_args",
    "template",
]
