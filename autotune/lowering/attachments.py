"""Where a stage is attached: the loops around it, and the thread axes that these are bound to."""

from __future__ import annotations

from collections.abc import Iterator

from autotune.errors import LoweringError
from autotune.ir.expr import IterVar
from autotune.te.stage import Stage


def thread_axis(stage: Stage, leaf: IterVar) -> IterVar | None:
    """Return the thread axis that a loop is bound to."""
    attr = stage.iter_attrs.get(leaf)
    return attr.thread if attr is not None else None


def attachment(stage: Stage) -> tuple[Stage, IterVar]:
    """Return the loop that a stage is attached to."""
    assert stage.attachment is not None
    return stage.attachment


def tags_around(stage: Stage) -> set[str]:
    """Return the tags of the thread axes that the loops around a stage are bound to."""
    tags = set()
    for target, at in attach_chain(stage):
        for leaf in target.leaf_iter_vars:
            axis = thread_axis(target, leaf)
            if axis is not None:
                tags.add(axis.thread_tag)
            if leaf is at:
                break
    return tags


def attach_chain(stage: Stage) -> Iterator[tuple[Stage, IterVar]]:
    """Yield the loops a stage is attached to, from the inside out."""
    seen = {stage}
    while stage.attach_type == "at":
        target, at = attachment(stage)
        if target in seen:
            raise LoweringError(f"compute_at: {stage.op.name} is attached inside itself")
        seen.add(target)
        yield target, at
        stage = target


def check_reader(stage: Stage, reader: Stage) -> None:
    """Raise unless a reader is computed inside the loop that a stage is attached to.

    Raises:
        LoweringError: it reads the stage outside that loop.
    """
    target, at = attachment(stage)
    if reader is target:
        return
    for holder, inner in attach_chain(reader):
        leaves = holder.leaf_iter_vars
        if holder is target and inner in leaves and leaves.index(inner) >= leaves.index(at):
            return
    raise LoweringError(
        f"compute_at: {stage.op.name} is attached to axis {at.var.name!r} of {target.op.name}, "
        f"but {reader.op.name} reads it outside that loop; attach it further out, or compute it "
        "at the root"
    )
