"""Schedules for a GPU that are still being written: what may be printed, but not launched."""

from __future__ import annotations

from autotune.te.extern import ExternOp
from autotune.te.stage import Stage


def unbound(stage: Stage) -> str:
    """Say that a stage runs on no thread."""
    if isinstance(stage.op, ExternOp):
        return (
            f"te.extern: {stage.op.name}: its statements name no threads of a GPU; name them by "
            "ib.scope_attr(te.thread_axis('threadIdx.x'), 'thread_extent', n)"
        )
    return (
        f"{stage.op.name}: it is computed at the root for a GPU, but none of its loops is bound "
        "to a thread axis; bind its loops to blockIdx and threadIdx, or put it into another stage "
        "with compute_at or compute_inline"
    )


def unattached(stage: Stage) -> str:
    """Say that a stage is in the memory of a block or thread, but not computed within a kernel."""
    return (
        f"set_scope: {stage.op.name} has scope {stage.scope!r} but is computed in loops of its "
        "own; attach it inside a kernel with compute_at"
    )


def is_unattached(stage: Stage) -> bool:
    """Whether the memory of a stage that is computed at the root exists within kernels only."""
    return stage.scope not in ("", "global", None)
