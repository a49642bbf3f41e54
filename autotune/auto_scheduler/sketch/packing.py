"""A rule for what tiles read on a CPU: each block copies its part together, or computes it.

The rows of a wide matrix have so large a stride that few of them fit into a cache together. A
block that copies the columns it needs reads neighbouring lines from then on (Goto and van de
Geijn, "Anatomy of High-Performance Matrix Multiplication", 2008). TVM's rules have nothing of the
kind.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import ClassVar

from autotune.auto_scheduler.graph.reads import reads_of
from autotune.auto_scheduler.layouts.layout_graph import LayoutRewriteOption
from autotune.auto_scheduler.layouts.layout_rewrite import reads_freely
from autotune.auto_scheduler.sketch.inline import should_inline
from autotune.auto_scheduler.sketch.lanes import lanes_of
from autotune.auto_scheduler.sketch.rule import Condition, Derived, SketchContext
from autotune.auto_scheduler.sketch.stage_queries import (
    consumers,
    has_cache_read,
    has_reduction,
    is_output,
    is_tiled,
    needs_tiling,
    reads_directly,
)
from autotune.auto_scheduler.states.loops import IterKind, Stage
from autotune.auto_scheduler.states.state import State
from autotune.ir.structure import variables
from autotune.te.relation import extent_of
from autotune.te.tensor import Operation

SCOPE = "global"


class PackInBlock:
    """Let each block of tiles have its own part of what it reads, one element beside the other."""

    name: ClassVar[str] = "PackInBlock"

    def condition(self, context: SketchContext, state: State, stage_id: int) -> Condition:
        """Returns whether a stage of tiles reads neighbours as vectors, and each several times."""
        if context.is_gpu or has_cache_read(state, stage_id):
            return Condition.PASS
        reading = consumers(context, state, stage_id)
        if len(reading) != 1 or not needs_tiling(context, state, reading[0]):
            return Condition.PASS
        reader = state.stages[reading[0]]
        if not is_tiled(reader) or not reads_directly(context, state, reading[0], stage_id):
            return Condition.PASS
        if block_end(state, reading[0]) is None:
            return Condition.PASS
        if state.stages[stage_id].is_compute:
            return self._movable(context, state, stage_id)
        source = state.stages[stage_id].op
        if not _is_vector(reader, source) or _lies_so_already(context, reader, source):
            return Condition.PASS
        chosen = lanes_of(reader) != len(reader.op.axis) - 1  # for the sake of what is packed
        return Condition.APPLY_AND_SKIP_REST if chosen else Condition.APPLY

    def _movable(self, context: SketchContext, state: State, stage_id: int) -> Condition:
        stage = state.stages[stage_id]
        stays = has_reduction(stage) or is_output(context, state, stage_id)
        if stays or is_tiled(stage) or should_inline(context, state, stage_id):
            return Condition.PASS
        return Condition.APPLY

    def apply(self, context: SketchContext, state: State, stage_id: int) -> Iterable[Derived]:
        """Copy the stage in the block; what is computed anyway is computed there."""
        (reader,) = consumers(context, state, stage_id)
        new = state.copy()
        at = stage_id
        if not state.stages[stage_id].is_compute:
            new.cache_read(stage_id, SCOPE, [reader])
            at, reader = stage_id + 1, reader + 1
        place = block_end(new, reader)
        assert place is not None
        root, loop = place
        new.compute_at(at, root, new.stages[root].iters[loop])
        return [(new, stage_id - 1)]


def _lies_so_already(context: SketchContext, reader: Stage, source: Operation) -> bool:
    """Returns whether weights come in the order of the loops, so that a copy gains nothing."""
    ahead = LayoutRewriteOption.REWRITE_FOR_PRE_TRANSFORMED
    option = context.search_task.layout_rewrite_option
    return option is ahead and reads_freely(reader.op, source)


def block_end(state: State, stage_id: int) -> tuple[int, int] | None:
    """Returns the last loop over blocks around a tiled stage: whose it is, and its place."""
    attach = state.state_object.attach
    root = attach[stage_id][0] if stage_id in attach else stage_id
    if root in attach:
        return None
    loops = state.stages[root].iters
    count = 0
    while count < len(loops) and loops[count].name.endswith(".0"):
        if loops[count].iter_kind is not IterKind.SPATIAL:
            break
        count += 1
    return (root, count - 1) if count else None


def packed_dimension(reader: Stage, source: Operation) -> int | None:
    """Returns the dimension that the lanes of a tiled stage index, if it is not the last one.

    A copy is stored with that dimension as the last (`lowering.storage_order`).
    """
    var = reader.op.axis[lanes_of(reader)].var
    found = {
        i
        for indices in reads_of(reader.op).get(source, ())
        for i, index in enumerate(indices)
        if var in variables(index)
    }
    last = max((len(each) for each in reads_of(reader.op).get(source, ())), default=0) - 1
    return found.pop() if len(found) == 1 and last not in found else None


def _is_vector(reader: Stage, source: Operation) -> bool:
    """Returns whether the reader's lanes read elements that other axes read again."""
    op = reader.op
    lanes = op.axis[lanes_of(reader)].var
    for indices in reads_of(op).get(source, ()):
        used = variables(*indices)
        again = any(axis.var not in used and (extent_of(axis) or 1) > 1 for axis in op.axis)
        if lanes in used and again:
            return True
    return False
