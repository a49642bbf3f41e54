"""AutoTVM's `task.space`: spaces and entities."""

from autotune.errors import InstantiationError
from autotune.task.axes import Axis, VirtualAxis
from autotune.task.config_entity import ConfigEntity
from autotune.task.config_space import ConfigSpace
from autotune.task.fallback import FallbackConfigEntity
from autotune.task.kinds import (
    AnnotateEntity,
    AnnotateSpace,
    OtherOptionEntity,
    OtherOptionSpace,
    ReorderEntity,
    ReorderSpace,
    SplitEntity,
    SplitSpace,
    TransformSpace,
)
from autotune.utils.math import divisors as get_factors
from autotune.utils.math import powers_of_two as get_pow2s

__all__ = [
    "AnnotateEntity",
    "AnnotateSpace",
    "Axis",
    "ConfigEntity",
    "ConfigSpace",
    "FallbackConfigEntity",
    "InstantiationError",
    "OtherOptionEntity",
    "OtherOptionSpace",
    "ReorderEntity",
    "ReorderSpace",
    "SplitEntity",
    "SplitSpace",
    "TransformSpace",
    "VirtualAxis",
    "get_factors",
    "get_pow2s",
]
