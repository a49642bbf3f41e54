"""Knobs, spaces, templates, tasks, and which configuration a template gets."""

from autotune.errors import InstantiationError
from autotune.task import dispatcher, space, task
from autotune.task.axes import VirtualAxis
from autotune.task.config_entity import ConfigEntity
from autotune.task.config_space import ConfigSpace
from autotune.task.dispatcher import (
    ApplyConfig,
    ApplyFixedConfig,
    DispatchContext,
    FallbackContext,
    get_config,
)
from autotune.task.entities import (
    AnnotateEntity,
    OtherOptionEntity,
    ReorderEntity,
    SplitEntity,
)
from autotune.task.fallback import FallbackConfigEntity
from autotune.task.task import Task, create
from autotune.task.template import TASK_TABLE, TaskTemplate, register, template
from autotune.task.workload import args_to_workload, serialize_args

__all__ = [
    "TASK_TABLE",
    "AnnotateEntity",
    "ApplyConfig",
    "ApplyFixedConfig",
    "ConfigEntity",
    "ConfigSpace",
    "DispatchContext",
    "FallbackConfigEntity",
    "FallbackContext",
    "InstantiationError",
    "OtherOptionEntity",
    "ReorderEntity",
    "SplitEntity",
    "Task",
    "TaskTemplate",
    "VirtualAxis",
    "args_to_workload",
    "create",
    "dispatcher",
    "get_config",
    "register",
    "serialize_args",
    "space",
    "task",
    "template",
]
