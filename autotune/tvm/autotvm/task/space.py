"""AutoTVM's `task.space`: spaces and entities."""

from typing import TYPE_CHECKING

from autotune.errors import InstantiationError
from autotune.task.annotate_space import AnnotateSpace
from autotune.task.axes import Axis, VirtualAxis
from autotune.task.config_entity import ConfigEntity
from autotune.task.config_space import ConfigSpace
from autotune.task.entities import AnnotateEntity, OtherOptionEntity, ReorderEntity, SplitEntity
from autotune.task.fallback import FallbackConfigEntity
from autotune.task.option_space import OtherOptionSpace
from autotune.task.reorder_space import ReorderSpace
from autotune.task.split_space import SplitSpace
from autotune.task.transform_space import TransformSpace
from autotune.tvm.names import resolver
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

if not TYPE_CHECKING:
    __getattr__ = resolver(__name__)
