"""TVM's `auto_scheduler.task_scheduler`."""

from autotune.auto_scheduler import (
    LogEstimatedLatency,
    PrintTableInfo,
    TaskScheduler,
    TaskSchedulerCallback,
)

__all__ = ["LogEstimatedLatency", "PrintTableInfo", "TaskScheduler", "TaskSchedulerCallback"]
