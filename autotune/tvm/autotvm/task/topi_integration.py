"""AutoTVM's `task.topi_integration`."""

from typing import TYPE_CHECKING

from autotune.task.topi_integration import (
    deserialize_args,
    get_workload,
    register_topi_compute,
    register_topi_schedule,
)
from autotune.task.workload import args_to_workload, serialize_args
from autotune.tvm.names import resolver

__all__ = [
    "args_to_workload",
    "deserialize_args",
    "get_workload",
    "register_topi_compute",
    "register_topi_schedule",
    "serialize_args",
]

if not TYPE_CHECKING:
    __getattr__ = resolver(__name__)
