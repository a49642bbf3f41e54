"""AutoTVM's `task.topi_integration`."""

from autotune.task.topi_integration import (
    deserialize_args,
    get_workload,
    register_topi_compute,
    register_topi_schedule,
)
from autotune.task.workload import args_to_workload, serialize_args

__all__ = [
    "args_to_workload",
    "deserialize_args",
    "get_workload",
    "register_topi_compute",
    "register_topi_schedule",
    "serialize_args",
]
