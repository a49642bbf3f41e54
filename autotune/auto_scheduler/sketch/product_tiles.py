"""Tiles of matrix products: loops of their stages, and of those that take results over."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from autotune.auto_scheduler.graph.reads import reads_of
from autotune.auto_scheduler.sketch.parts import Groups, split_in_parts
from autotune.auto_scheduler.sketch.products import Product, product_of, tiles_of
from autotune.auto_scheduler.sketch.rule import SketchContext
from autotune.auto_scheduler.sketch.split_reduction import longest_reduction, summed_in_parts
from autotune.auto_scheduler.sketch.stage_queries import fusible_consumer, is_output
from autotune.auto_scheduler.states.loops import Iterator
from autotune.auto_scheduler.states.replay import view_scope
from autotune.auto_scheduler.states.state import State
from autotune.ir import Expr, IterVar
from autotune.ir.structure import variables
from autotune.te.tensor import ComputeOp, Operation

# Rows and columns of a tile, and of how many a device is full: sums of more are not cut in parts.
_FEW_TILES, MULTIPROCESSORS = (64, 64), 132

# The loops of a stage over a batch, over rows and over columns.
Loops = tuple[list[Iterator], Iterator, Iterator]
# Tiles a stage, given its loops, and returns the loop at which products are attached.
Tile = Callable[[State, int, Loops], Iterator]


def whole_and_in_parts(
    context: SketchContext, state: State, stage_id: int, found: Product, steps: int
) -> list[State]:
    """Returns a state, and one in which a product is of parts, where there are few tiles.

    How long the parts are, a multiple of ``steps`` for the time being, is decided later.
    """
    tiles = tiles_of(found, *_FEW_TILES)
    longest = longest_reduction(state.stages[stage_id]).extent or 0
    if tiles >= MULTIPROCESSORS or longest % steps or longest <= steps:
        return [state]
    return [state, summed_in_parts(context, state, stage_id, steps)]


def multiply_in_tiles(
    context: SketchContext,
    state: State,
    stage_id: int,
    instructions: str,
    tile: Tile,
    groups: Groups | None = None,
    beside: int | None = None,
) -> tuple[State, int, Iterator, Iterator]:
    """Tiles the stage that takes the results of a product over, and attaches the product there.

    Args:
        context: of the rule.
        state: left as it is.
        stage_id: of the product.
        instructions: that are to multiply.
        tile: tiles a stage, and returns the loop at which products are attached.
        groups: what takes the results over, if the product is of groups; see `sketch.groups`.
        beside: a product that its reader has been tiled for, in whose tiles it is computed too.

    Returns:
        The new state, and of the product the stage, the loop over instructions and that over
        their steps.
    """
    op = state.stages[stage_id].op
    found = product_of(op, instructions)
    assert found is not None
    assert isinstance(op, ComputeOp)
    reader = None if groups is None else groups.reader
    if groups is None and not is_output(context, state, stage_id):
        reader = fusible_consumer(context, state, stage_id)
    place = None if beside is None else state.state_object.attach[beside]
    reader = reader if place is None else place[0]
    new = state.copy()
    for operand, dimensions in _views(op, found):
        # Its number changes, since a view stands before the stage.
        at = new.stage_id(operand)
        new.cache_read(at, view_scope(dimensions), [stage_id])
        stage_id, reader = stage_id + 1, None if reader is None else reader + 1
    if reader is None:
        new.cache_write(stage_id, "local")
        reader = stage_id + 1
    if groups is not None:
        split_in_parts(new, reader, groups.parts)
    if place is None:
        lane = tile(new, reader, _three_loops(new, reader, op, found))
    else:
        lane = new.stages[reader].iters[place[1]]
    *data, k = _fused_steps(new, stage_id, op, found)
    chunk, step = new.split(stage_id, k, [found.depth])
    outer, inner = new.split(stage_id, chunk, [None])
    own = [data[op.axis.index(axes[-1])] for axes in (found.rows, found.columns)]
    others = [loop for loop in data if all(loop is not each for each in own)]
    new.reorder(stage_id, [*others, outer, inner, step, *own])
    new.compute_at(stage_id, reader, lane)
    return new, stage_id, inner, step


def _views(op: ComputeOp, found: Product) -> list[tuple[Operation, list[list[int]]]]:
    """Return the operands that are no matrices yet, and the axes that their dimensions are."""
    numbers = {axis: i for i, axis in enumerate((*op.axis, *op.reduce_axis))}
    reads, views = reads_of(op), []
    sides = zip(found.operands, (found.rows, found.columns), found.transposed, strict=True)
    for operand, own, transposed in sides:
        indices, shape = reads[operand][0], operand.outputs[0].shape
        if len(own) == len(found.steps) == 1 and _is_matrix(shape, indices, own[0], found):
            continue
        used = variables(*indices)
        batch = [(axis,) for axis in found.batch if axis.var in used]
        order = (found.steps, own) if transposed else (own, found.steps)
        views.append((operand, [[numbers[axis] for axis in each] for each in (*batch, *order)]))
    return views


def _is_matrix(shape: Sequence[object], at: Sequence[Expr], own: IterVar, found: Product) -> bool:
    """Return whether an operand's own axis and that of the reduction are dimensions of it.

    Where tiles may run on beyond the reduction, the dimension has to end with it.
    """
    (steps,), extent = found.steps, found.extents[2]
    if own.var not in at or steps.var not in at:
        return False
    return extent % found.panel == 0 or shape[at.index(steps.var)] == extent


def _three_loops(state: State, stage_id: int, op: ComputeOp, found: Product) -> Loops:
    """Return the loops of a stage of a product's axes: those over a batch, rows, columns."""
    loops = dict(zip(op.axis, state.stages[stage_id].iters, strict=True))
    sides = [[loops[axis] for axis in each] for each in (found.batch, found.rows, found.columns)]
    _in_order(state, stage_id, [loop for side in sides for loop in side])
    row, column = (one_loop(state, stage_id, side) for side in sides[1:])
    return sides[0], row, column


def _fused_steps(state: State, stage_id: int, op: ComputeOp, found: Product) -> list[Iterator]:
    """Return the loops of a product's stage, those of data and the one over all steps."""
    loops, count = state.stages[stage_id].iters, len(op.axis)
    data = loops[:count]
    steps = dict(zip(op.reduce_axis, loops[count:], strict=True))
    order = [steps[axis] for axis in found.steps]
    _in_order(state, stage_id, [*data, *order])
    return [*data, one_loop(state, stage_id, order)]


def _in_order(state: State, stage_id: int, loops: Sequence[Iterator]) -> None:
    """Put all loops of a stage in an order, if they stand in another."""
    if any(a is not b for a, b in zip(state.stages[stage_id].iters, loops, strict=True)):
        state.reorder(stage_id, loops)


def one_loop(state: State, stage_id: int, loops: Sequence[Iterator]) -> Iterator:
    """Return neighbouring loops as one."""
    return state.fuse(stage_id, loops) if len(loops) > 1 else loops[0]


def bind_together(state: State, stage_id: int, loops: Sequence[Iterator], thread: str) -> Iterator:
    """Bind loops, which become one, to a thread axis; return that one."""
    return state.bind(stage_id, one_loop(state, stage_id, loops), thread)
