"""The memory of stages: what was asked for, or what fits where they are computed."""

from __future__ import annotations

from autotune.errors import LoweringError
from autotune.lowering.attachments import tags_around, thread_axis
from autotune.lowering.unfinished import is_unattached, unattached
from autotune.te.stage import Stage
from autotune.te.warp_matrix import FRAGMENTS


def memory_of(stage: Stage, root: Stage, gpu: bool, shown: bool) -> str:
    """Return the memory of a stage: ``"global"``, ``"shared"``, ``"local"``.

    Args:
        stage: whose result it holds.
        root: the stage in whose loops, at the outermost, it is computed.
        gpu: whether kernels run on a GPU.
        shown: whether the loops are printed only, so that stages may not be attached yet.

    Raises:
        LoweringError: the memory exists within kernels only, and the stage is computed in none.
    """
    asked = stage.scope or "global"
    if root is stage or not gpu:
        if root is stage and gpu and is_unattached(stage) and not shown:
            raise LoweringError(unattached(stage))
        return "global" if root is stage else "local"
    if asked != "global":
        # Memory of a warp is what its threads share: shared memory serves, unless a pass
        # finds that they share nothing.
        if asked in FRAGMENTS:
            return "local"  # each thread of a warp holds a part of it
        return "shared" if asked == "warp" else asked
    tags = tags_around(stage)
    if any(not tag.startswith("blockIdx") for tag in tags):
        return "local"
    # With no block around there is one block; its threads share what they compute together.
    spread = any(thread_axis(stage, leaf) is not None for leaf in stage.leaf_iter_vars)
    return "shared" if tags or spread else "local"
