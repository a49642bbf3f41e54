"""TVM's `auto_scheduler.search_task`."""

from typing import TYPE_CHECKING

from autotune.auto_scheduler.hardware_params import HardwareParams
from autotune.auto_scheduler.search_task import SearchTask, create_task
from autotune.tvm.names import resolver

__all__ = ["HardwareParams", "SearchTask", "create_task"]

if not TYPE_CHECKING:
    __getattr__ = resolver(__name__)
