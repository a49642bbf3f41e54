"""TVM's `auto_scheduler.search_task`."""

from autotune.auto_scheduler import TuningOptions
from autotune.auto_scheduler.problem.hardware_params import HardwareParams
from autotune.auto_scheduler.problem.task_inputs import (
    TASK_INPUT_BUFFER_TABLE,
    get_task_input_buffer,
    register_task_input_buffer,
)
from autotune.auto_scheduler.search_task import SearchTask, create_task

__all__ = [
    "TASK_INPUT_BUFFER_TABLE",
    "HardwareParams",
    "SearchTask",
    "TuningOptions",
    "create_task",
    "get_task_input_buffer",
    "register_task_input_buffer",
]
