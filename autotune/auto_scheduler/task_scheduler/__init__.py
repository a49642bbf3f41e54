"""Tuning the tasks of a network together: which gets the next trials, and what it gained."""

from autotune.auto_scheduler.task_scheduler.callbacks import (
    LogEstimatedLatency,
    PrintTableInfo,
    TaskSchedulerCallback,
)
from autotune.auto_scheduler.task_scheduler.scheduler import TaskScheduler

__all__ = ["LogEstimatedLatency", "PrintTableInfo", "TaskScheduler", "TaskSchedulerCallback"]
