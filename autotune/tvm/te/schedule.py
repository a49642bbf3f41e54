"""TVM's `te.schedule`."""

from autotune.te import (
    FuseRelation,
    IterVar,
    Schedule,
    SingletonRelation,
    SplitRelation,
    Stage,
    create_schedule,
)

__all__ = [
    "FuseRelation",
    "IterVar",
    "Schedule",
    "SingletonRelation",
    "SplitRelation",
    "Stage",
    "create_schedule",
]
