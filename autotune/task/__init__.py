"""Knobs, spaces, templates, tasks, and which configuration a template gets.

A function under `template` declares knobs on the `ConfigSpace` of the task that `create` makes,
and runs again for each `ConfigEntity` of it. In use it gets the one that the innermost
`DispatchContext` has, or a `FallbackConfigEntity`.
"""

from typing import TYPE_CHECKING

from autotune.errors import InstantiationError
from autotune.task import dispatcher, task
from autotune.task.axes import VirtualAxis
from autotune.task.code_hash import attach_code_hash, attach_code_hash_to_arg
from autotune.task.config_entity import ConfigEntity
from autotune.task.config_space import ConfigSpace
from autotune.task.constraints.symbols import is_symbolic, larger, smaller
from autotune.task.dispatcher import (
    ApplyConfig,
    ApplyFixedConfig,
    DispatchContext,
    FallbackContext,
    clear_fallback_cache,
    get_config,
)
from autotune.task.fallback import FallbackConfigEntity
from autotune.task.kinds import (
    AnnotateEntity,
    Entity,
    OtherOptionEntity,
    ReorderEntity,
    SplitEntity,
    TransformSpace,
)
from autotune.task.scope import GLOBAL_SCOPE
from autotune.task.task import Task, create
from autotune.task.template import (
    TASK_TABLE,
    TaskTemplate,
    register,
    register_operator,
    template,
)
from autotune.task.template_config import KnobValue, TemplateConfig
from autotune.task.topi_integration import (
    deserialize_args,
    get_workload,
    register_topi_compute,
    register_topi_schedule,
)
from autotune.task.workload import args_to_workload, serialize_args
from autotune.utils.names import lent

__all__ = [
    "GLOBAL_SCOPE",
    "TASK_TABLE",
    "AnnotateEntity",
    "ApplyConfig",
    "ApplyFixedConfig",
    "ConfigEntity",
    "ConfigSpace",
    "DispatchContext",
    "Entity",
    "FallbackConfigEntity",
    "FallbackContext",
    "InstantiationError",
    "KnobValue",
    "OtherOptionEntity",
    "ReorderEntity",
    "SplitEntity",
    "Task",
    "TaskTemplate",
    "TemplateConfig",
    "TransformSpace",
    "VirtualAxis",
    "args_to_workload",
    "attach_code_hash",
    "attach_code_hash_to_arg",
    "clear_fallback_cache",
    "create",
    "deserialize_args",
    "dispatcher",
    "get_config",
    "get_workload",
    "is_symbolic",
    "larger",
    "register",
    "register_operator",
    "register_topi_compute",
    "register_topi_schedule",
    "serialize_args",
    "smaller",
    "task",
    "template",
]

if not TYPE_CHECKING:
    __getattr__ = lent(
        __name__, "ApplyHistoryBest extract_from_multiple_program extract_from_program space"
    )
