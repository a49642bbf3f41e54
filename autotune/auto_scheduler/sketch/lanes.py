"""Rules that vectorise along another axis than the last, where the last one is too short.

The rows of an image are short, and those of a strided convolution are not contiguous; its
output channels are many. Their weights, whose stride is large, are then copied so that those of a
vector are neighbours (Georganas et al., "Anatomy of High-Performance Deep Learning Convolutions on
SIMD Architectures", 2018). TVM's rules have nothing of the kind, its convolutions for CPUs have
layouts instead.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import ClassVar

from autotune.auto_scheduler.graph.reads import reads_of
from autotune.auto_scheduler.sketch.rule import Condition, Derived, SketchContext
from autotune.auto_scheduler.sketch.stage_queries import (
    fusible_consumer,
    is_tiled,
    needs_tiling,
    original_names,
)
from autotune.auto_scheduler.sketch.tiling import fused_at_levels
from autotune.auto_scheduler.states.loops import Stage
from autotune.auto_scheduler.states.state import State
from autotune.ir import IterVar, Var
from autotune.ir.structure import variables
from autotune.te.relation import extent_of
from autotune.te.tensor import ComputeOp, Operation
from autotune.utils.math import divisors

# Lanes of the widest vectors, and the fewest that are worth a vector.
_WIDEST, _FEWEST = 16, 8
# Elements that share a vector while their sums, two vectors each, stay in 16 registers.
SHARING = (4, 5, 6)


def _tiles_with_reader(context: SketchContext, state: State, stage_id: int) -> bool:
    """Returns whether a stage for the CPU is still to be tiled, together with its reader."""
    if context.is_gpu or is_tiled(state.stages[stage_id]):
        return False
    fusible = needs_tiling(context, state, stage_id)
    return fusible and fusible_consumer(context, state, stage_id) is not None


class LanesAlongChannels:
    """Tile a stage with vectors along an axis that indexes one input, and no other."""

    name: ClassVar[str] = "LanesAlongChannels"

    def condition(self, context: SketchContext, state: State, stage_id: int) -> Condition:
        """Returns whether the last axis fills no vectors, and another one does."""
        op = state.stages[stage_id].op
        applies = _tiles_with_reader(context, state, stage_id) and lane_axis(op) is not None
        return Condition.APPLY if applies else Condition.PASS

    def apply(self, context: SketchContext, state: State, stage_id: int) -> Iterable[Derived]:
        """Tile the stage and its reader, the loop over lanes innermost."""
        axis = lane_axis(state.stages[stage_id].op)
        assert axis is not None
        return fused_at_levels(context, state, stage_id, _loop_name(axis))


class ElementsInOneRun:
    """Count the elements of small images in one run, which is cut into tiles of any size.

    Seven rows of seven have no tile but of seven: too few sums in one vector each to hide how long
    an addition takes, and too many in two for 16 registers. A run of 49 in tiles of five has nine
    whole ones, and one that is not.
    """

    name: ClassVar[str] = "ElementsInOneRun"

    def condition(self, context: SketchContext, state: State, stage_id: int) -> Condition:
        """Returns whether no tile of the elements that share a vector fits registers."""
        op = state.stages[stage_id].op
        applies = _tiles_with_reader(context, state, stage_id) and uneven_run(op)
        return Condition.APPLY if applies else Condition.PASS

    def apply(self, context: SketchContext, state: State, stage_id: int) -> Iterable[Derived]:
        """Fuse the loops over elements, and tile the stage and its reader."""
        op = state.stages[stage_id].op
        axis = vector_axis(op)
        assert axis is not None
        return fused_at_levels(context, state, stage_id, _loop_name(axis), uneven_run(op))


def uneven_run(op: Operation) -> tuple[int, ...]:
    """Returns the axes of elements that share a vector, if no tile of these fits registers."""
    lanes = vector_axis(op)
    if lanes is None or not isinstance(op, ComputeOp):
        return ()
    beside = {
        var
        for reads in reads_of(op).values()
        for indices in reads
        if lanes.var in variables(*indices)
        for var in variables(*indices)
    }
    run = [i for i, axis in enumerate(op.axis) if axis.var not in beside and extent_of(axis) != 1]
    if len(run) < 2 or run != list(range(run[0], run[-1] + 1)):
        return ()
    sizes = {1}
    for i in run:
        sizes = {a * b for a in sizes for b in divisors(extent_of(op.axis[i]) or 1)}
    return () if sizes & set(SHARING) or max(sizes) < min(SHARING) else tuple(run)


def vector_axis(op: Operation) -> IterVar | None:
    """Returns the axis along which vectors should go, if there is one."""
    axis = lane_axis(op)
    if axis is None and isinstance(op, ComputeOp) and op.axis and _fills_vectors(op):
        return op.axis[-1]
    return axis


def lane_axis(op: Operation) -> IterVar | None:
    """Returns the axis for vectors if that should not be the last one, else None."""
    if not isinstance(op, ComputeOp) or len(op.axis) < 2 or _fills_vectors(op):
        return None
    fitting = [axis for axis in op.axis[:-1] if (extent_of(axis) or 1) % _FEWEST == 0]
    return next((axis for axis in fitting if _indexes_one(op, axis.var)), None)


def lanes_of(stage: Stage) -> int:
    """Returns the number of the axis that the innermost loop of a tiled stage comes from."""
    names = original_names(stage.iters[-1].name) if stage.iters else set()
    found = (i for i, axis in enumerate(stage.op.axis) if _loop_name(axis) in names)
    return next(found, len(stage.op.axis) - 1)


def _loop_name(axis: IterVar) -> str:
    """Returns what loops over an axis are called (see `loops.Iterator`)."""
    return axis.name.replace(".", "_")


def _fills_vectors(op: ComputeOp) -> bool:
    """Whether the last axis counts neighbours, and enough of them for whole vectors."""
    last = op.axis[-1]
    if (extent_of(last) or 1) % _WIDEST:
        return False
    reads = [indices for each in reads_of(op).values() for indices in each if indices]
    return all(
        index is last.var or last.var not in variables(index)
        for indices in reads
        for index in indices
    )


def _indexes_one(op: ComputeOp, var: Var) -> bool:
    """Whether an axis by itself indexes one dimension of one input, which is read at one place."""
    places = [
        (source, i, index is var)
        for source, reads in reads_of(op).items()
        for indices in reads
        for i, index in enumerate(indices)
        if var in variables(index)
    ]
    return len(places) == 1 and places[0][2]
