"""The default configuration of a task: what its template runs with where nothing was tuned."""

from __future__ import annotations

from autotune.task.config_entity import ConfigEntity
from autotune.task.task import Task


def default_config(task: Task) -> ConfigEntity | None:
    """Return the point of the task's space that an untuned template uses; see `Task.default`."""
    return task.default()
