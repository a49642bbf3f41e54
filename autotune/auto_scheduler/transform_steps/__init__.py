"""Transform steps: what a loop state is made of, one frozen class a kind."""

from autotune.auto_scheduler.states.loop_state import STEPS, TransformStep
from autotune.auto_scheduler.transform_steps.location import (
    ComputeAtStep,
    ComputeInlineStep,
    ComputeRootStep,
)
from autotune.auto_scheduler.transform_steps.loops import (
    AnnotationStep,
    FuseStep,
    PragmaStep,
    ReorderStep,
    StorageAlignStep,
)
from autotune.auto_scheduler.transform_steps.online import OnlineStep
from autotune.auto_scheduler.transform_steps.rows import step_from_row
from autotune.auto_scheduler.transform_steps.split import (
    FollowFusedSplitStep,
    FollowSplitStep,
    SplitStep,
)
from autotune.auto_scheduler.transform_steps.stages import (
    CacheReadStep,
    CacheWriteStep,
    RfactorStep,
)

__all__ = [
    "STEPS",
    "AnnotationStep",
    "CacheReadStep",
    "CacheWriteStep",
    "ComputeAtStep",
    "ComputeInlineStep",
    "ComputeRootStep",
    "FollowFusedSplitStep",
    "FollowSplitStep",
    "FuseStep",
    "OnlineStep",
    "PragmaStep",
    "ReorderStep",
    "RfactorStep",
    "SplitStep",
    "StorageAlignStep",
    "TransformStep",
    "step_from_row",
]
