"""Layout rewrite: the layout of weights in which a state reads them contiguously.

The innermost tiles of a convolution or a product read each weight once, but from addresses far
apart. If nothing else depends on the layout of the weights (``layout_free_placeholders``, an
attribute of the operation that reads them), they may be stored in the order of the loops. The
layout is the one of TVM's auto-scheduler. It is always a permutation, so it does not change
results, and the original weights can be restored.
"""

from __future__ import annotations

from collections.abc import Iterator as Iter
from collections.abc import Sequence
from math import prod

from autotune.auto_scheduler.graph.compute_graph import ComputeGraph
from autotune.auto_scheduler.graph.reads import reads_of
from autotune.auto_scheduler.states.bounds import infer_bound
from autotune.auto_scheduler.states.loop_state import StateObject, TransformStep, plain_state
from autotune.auto_scheduler.states.loops import Iterator, clean_name
from autotune.ir import IntImm, IterVar, Var
from autotune.kernel.layout import TiledLayout
from autotune.te.tensor import Operation, PlaceholderOp, Tensor

# Attribute of an operation: the inputs that may have any layout.
FREE = "layout_free_placeholders"

Layouts = dict[Operation, TiledLayout]


def free_placeholders(op: Operation) -> tuple[Operation, ...]:
    """Return the inputs of an operation that may have any layout, by its attribute."""
    given = op.attrs.get(FREE, ())
    return tuple(
        [each.op if isinstance(each, Tensor) else each for each in given] if given else ()
    )


def has_free_placeholders(graph: ComputeGraph) -> bool:
    """Return whether any operation says that weights may have any layout."""
    return any(free_placeholders(op) for op in graph.ops)


def reads_freely(reader: Operation, source: Operation) -> bool:
    """Return whether what an operation reads may have any layout."""
    return isinstance(source, PlaceholderOp) and source in free_placeholders(reader)


def layouts_of(graph: ComputeGraph, steps: Sequence[TransformStep]) -> Layouts:
    """Return the weights that a state reads in another layout, and that layout.

    Left out are weights that are stored as they are read already, and those of which the order of
    the loops does not tell one: they are read through a copy, by several operations, or by tiles
    that do not divide them.

    Raises:
        ScheduleError: a length is not decided, or a step cannot be taken.
        LoweringError: a stage is attached where it cannot be computed.
    """
    if not has_free_placeholders(graph):
        return {}
    state = infer_bound(plain_state(graph).after(steps))
    found: Layouts = {}
    for stage_id, stage in enumerate(state.stages):
        for source in free_placeholders(stage.op):
            layout = _layout(state, stage_id, source)
            if layout is not None and not layout.is_natural:
                found[source] = layout
    return found


def _layout(state: StateObject, stage_id: int, source: Operation) -> TiledLayout | None:
    op = state.stages[stage_id].op
    readers = [each for each in state.stage_ops if source in reads_of(each)]
    if readers != [op] or not isinstance(source, PlaceholderOp):
        return None
    shape = tuple([n for n in source.outputs[0].shape if isinstance(n, int)])
    dimensions = _dimensions(op, source)
    parts = []
    for axis, extent in _loops(state, stage_id):
        if axis in dimensions:
            parts.append((dimensions[axis], extent or 0))
    made = tuple([prod([n for i, n in parts if i == at]) for at in range(len(shape))])
    whole = made == shape and len(shape) == len(source.outputs[0].shape)
    return TiledLayout(shape, tuple(parts)) if whole else None


def _dimensions(op: Operation, source: Operation) -> dict[IterVar | None, int]:
    """Return which dimension each axis of an operation indexes in what it reads.

    Nothing where an index is something else than an axis or a constant, or reads differ.
    """
    axes = {axis.var: axis for axis in (*op.axis, *op.reduce_axis)}
    found: list[dict[IterVar | None, int]] = []
    for indices in reads_of(op)[source]:
        known = [(axes.get(each), i) for i, each in enumerate(indices) if isinstance(each, Var)]
        constant = sum(isinstance(each, IntImm) for each in indices)
        own = dict(known)
        if None in own or len(own) + constant != len(indices):
            return {}
        found.append(own)
    return found[0] if all(each == found[0] for each in found) else {}


def _loops(
    state: StateObject, stage_id: int, count: int | None = None
) -> Iter[tuple[IterVar | None, int | None]]:
    """Yield the axis and the extent of each loop around a stage, outermost first.

    Where a stage is computed in loops of another one of its shape, these are over its own axes in
    the same places. The axis is None where a loop is over none of them, or over several.

    Args:
        state: with the ranges of all loops.
        stage_id: the stage.
        count: of its own loops, how many to look at; all by default.
    """
    stage = state.stages[stage_id]
    if stage_id in state.attach:
        target, last = state.attach[stage_id]
        outer = state.stages[target].op
        alike = outer.outputs[0].shape == stage.op.outputs[0].shape
        own = dict(zip(outer.axis, stage.op.axis, strict=True)) if alike else {}
        for axis, extent in _loops(state, target, last + 1):
            yield (None if axis is None else own.get(axis)), extent
    names = {clean_name(axis.name): axis for axis in (*stage.op.axis, *stage.op.reduce_axis)}
    for loop in stage.iters[:count]:
        for part in _parts(loop):
            yield (
                (names.get(part.name.split(".")[0]) if "@" not in part.name else None),
                part.extent,
            )


def _parts(loop: Iterator) -> Iter[Iterator]:
    """Yield the loops that a loop was fused of, and those that these were."""
    if not loop.orig_iters:
        yield loop
    for each in loop.orig_iters:
        yield from _parts(each)
