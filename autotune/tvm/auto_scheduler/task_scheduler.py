"""TVM's `auto_scheduler.task_scheduler`."""

from typing import TYPE_CHECKING

from autotune.auto_scheduler import (
    LogEstimatedLatency,
    PrintTableInfo,
    TaskScheduler,
    TaskSchedulerCallback,
)
from autotune.tvm.names import resolver

__all__ = ["LogEstimatedLatency", "PrintTableInfo", "TaskScheduler", "TaskSchedulerCallback"]

if not TYPE_CHECKING:
    __getattr__ = resolver(__name__)
