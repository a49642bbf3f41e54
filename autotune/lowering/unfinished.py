"""Schedules for a GPU that are still being written: what may be printed, but not launched."""

from __future__ import annotations

from autotune.lowering.bodies import BodySimplifier
from autotune.lowering.plan import Plan
from autotune.lowering.scan_plan import reads_across_blocks
from autotune.te.extern import ExternOp
from autotune.te.stage import Stage


def why_unfinished(plan: Plan, simplifier: BodySimplifier, root: Stage) -> str:
    """Return why the loops of a stage are no kernel yet; empty if they are one."""
    return unattached(root) if is_unattached(root) else why_not_launched(plan, simplifier, root)


def why_not_launched(plan: Plan, simplifier: BodySimplifier, root: Stage) -> str:
    """Return why threads cannot run the loops of a stage; empty if they can."""
    if not _binds_threads_of(plan, root):
        return unbound(root)
    return reads_across_blocks(plan, simplifier, root)


def _binds_threads_of(plan: Plan, root: Stage) -> bool:
    """Return whether any stage of a kernel is bound, be it to a single thread."""
    return root.names_threads or any(
        attr.thread is not None
        for stage, stage_plan in plan.stages.items()
        if stage_plan.root is root
        for attr in stage.iter_attrs.values()
    )


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
