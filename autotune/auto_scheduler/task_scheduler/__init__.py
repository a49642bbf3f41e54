"""Tuning the tasks of a network together: who gets the next trials, and what that has brought."""

from autotune.auto_scheduler.task_scheduler.callbacks import (
    LogEstimatedLatency,
    PrintTableInfo,
    TaskSchedulerCallback,
)
from autotune.auto_scheduler.task_scheduler.scheduler import TaskScheduler

__all__ = ["LogEstimatedLatency", "PrintTableInfo", "TaskScheduler", "TaskSchedulerCallback"]
