"""TVM's `te.schedule`."""

from typing import TYPE_CHECKING

from autotune.te import (
    FuseRelation,
    IterVar,
    Schedule,
    SingletonRelation,
    SplitRelation,
    Stage,
    create_schedule,
)
from autotune.tvm.names import resolver

__all__ = [
    "FuseRelation",
    "IterVar",
    "Schedule",
    "SingletonRelation",
    "SplitRelation",
    "Stage",
    "create_schedule",
]

if not TYPE_CHECKING:
    __getattr__ = resolver(__name__)
