"""Operands of products in an unsuitable layout, which kernels of their own copy to another one.

Tensor cores multiply operands in shared memory, which are copied there 16 bytes at a time where
neighbours in memory are steps of the sum, or rows, or columns. Of an image of NCHW they are places
of a row, which a window reads at every offset, and of filters of OIHW places of the window: these
are copied one by one, again for each tile. Of a copy whose channels stand last neighbours are
steps. cuDNN transposes such images too (NVIDIA, "Convolutional Layers User's Guide").

Of an image that is padded first the copy has no padding: nothing is computed for its elements, and
zeros are put where a product loads its tiles, as of images whose channels stand last.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from math import prod
from typing import ClassVar

from autotune.auto_scheduler.graph.reads import reads_of, shifted_equal
from autotune.auto_scheduler.sketch.caches import CacheRead
from autotune.auto_scheduler.sketch.product_tiles import bind_together, one_loop
from autotune.auto_scheduler.sketch.products import Product, product_of
from autotune.auto_scheduler.sketch.rule import Condition, Derived, SketchContext
from autotune.auto_scheduler.sketch.stage_queries import consumers, is_output
from autotune.auto_scheduler.states.loops import Iterator
from autotune.auto_scheduler.states.replay import permuted_scope, view_scope
from autotune.auto_scheduler.states.state import State
from autotune.auto_scheduler.transform_steps.loops import WGMMA
from autotune.ir import (
    Add,
    Conditional,
    Expr,
    FloatImm,
    IntImm,
    IterVar,
    Mul,
    ProducerLoad,
    Var,
    as_expr,
    substitute,
)
from autotune.ir.dtype import bits_of
from autotune.ir.structure import walk
from autotune.te.relation import extent_of
from autotune.te.rewrite import PERMUTED
from autotune.te.tensor import ComputeOp, Operation
from autotune.utils.math import ceil_div

# Elements of a tile along either side, and threads that copy it.
_TILE, _THREADS = 64, 256
# Bytes that a bank of shared memory gives at once: a thread stores as many.
_BANK_BYTES = 4

# Indices of dimensions, and how long these are.
Indexed = tuple[Sequence[Expr], Sequence[int]]


def as_it_lies_and_permuted(
    context: SketchContext, state: State, stage_id: int, instructions: str
) -> list[tuple[State, int]]:
    """Returns a state with the stage of a product, and one with copies of unsuitable operands.

    Args:
        context: of the rule.
        state: left as it is.
        stage_id: of the product.
        instructions: that are to multiply; ``wgmma`` reads floats along the sum only.
    """
    op = state.stages[stage_id].op
    found = product_of(op, instructions)
    assert found is not None
    along = instructions == WGMMA and found.item == _BANK_BYTES
    permuted = _permuted(context, state, stage_id, found, along)
    return [(state, stage_id)] if permuted is None else [(state, stage_id), permuted]


def _permuted(
    context: SketchContext, state: State, stage_id: int, found: Product, along: bool
) -> tuple[State, int] | None:
    """Return a state where operands have a suitable layout; None if they have, or cannot."""
    op = state.stages[stage_id].op
    read, single = reads_of(op), _single(op)
    reads = [_without_ones(each, read[each][0], single) for each in found.operands]
    channel = _channel(found, reads)
    if channel is None:
        return None
    new = state.copy()
    for operand, own, seen in zip(found.operands, (found.rows, found.columns), reads, strict=True):
        lies_across = not along and _run(seen, own) % found.vector == 0
        if lies_across or _lies_along(channel, seen):
            continue
        last = _dimension(channel, read[operand][0])
        assert last is not None
        order = [i for i in range(len(read[operand][0])) if i != last]
        scope, at = permuted_scope([*order, last]), new.stage_id(operand)
        padded = padded_by(operand) if _is_read_here_alone(context, state, operand) else None
        if padded is not None:
            # What is padded is copied, with nothing to compute; the zeros are not stored.
            new.cache_read(new.stage_id(padded), scope, [at])
            at, stage_id = at + 1, stage_id + 1
        new.cache_read(at, scope, [stage_id])
        stage_id += 1
    return None if new.transform_steps == state.transform_steps else (new, stage_id)


def padded_by(op: Operation) -> Operation | None:
    """Returns what an operation pads with a constant, or only moves; None if it does neither."""
    body = op.body[0] if isinstance(op, ComputeOp) and len(op.body) == 1 else None
    if isinstance(body, Conditional) and isinstance(body.other, IntImm | FloatImm):
        body = body.then
    if not isinstance(body, ProducerLoad) or len(body.indices) != len(op.axis):
        return None
    if body.tensor is not body.tensor.op.outputs[0]:
        return None  # copies are of the first result of an operation that has several
    moved = zip(op.axis, body.indices, strict=True)
    return body.tensor.op if all(shifted_equal(axis.var, i) for axis, i in moved) else None


def _is_read_here_alone(context: SketchContext, state: State, operand: Operation) -> bool:
    """Return whether an operand of a product is computed for that product only."""
    at = state.stage_id(operand)
    return not is_output(context, state, at) and len(consumers(context, state, at)) == 1


def _channel(found: Product, reads: Sequence[Indexed]) -> IterVar | None:
    """Return the axis of the sum that becomes the last dimension of operands.

    It has to be a dimension of both by itself; the best is the last one already, or is long.
    """

    def merit(axis: IterVar) -> tuple[int, int]:
        return sum(_lies_along(axis, each) for each in reads), extent_of(axis) or 0

    fitting = [
        axis
        for axis in found.steps
        if (extent_of(axis) or 0) % found.vector == 0
        and all(_dimension(axis, indices) is not None for indices, _ in reads)
    ]
    return max(fitting, key=merit, default=None)


def _lies_along(axis: IterVar, read: Indexed) -> bool:
    """Return whether an axis counts neighbours in memory."""
    return bool(read[0]) and _dimension(axis, read[0]) == len(read[0]) - 1


def _dimension(axis: IterVar, indices: Sequence[Expr]) -> int | None:
    """Return the dimension along which an axis counts, from where a group begins if there are any.

    None if it indexes several, or none so.
    """
    used = list(walk(*indices))
    if used.count(axis.var) != 1:
        return None
    for i, index in enumerate(indices):
        if index is axis.var:
            return i
        if isinstance(index, Add) and index.b is axis.var and _begins(index.a, axis):
            return i
    return None


def _begins(index: Expr, axis: IterVar) -> bool:
    """Return whether an index is the first of as many as an axis has, of some group."""
    match index:
        case Mul(Var(), IntImm(length)):
            return length == extent_of(axis)
        case _:
            return False


def _single(op: Operation) -> dict[Var, Expr]:
    """Return the values of axes that have a single iteration."""
    axes = [each for each in (*op.axis, *op.reduce_axis) if extent_of(each) == 1]
    return {each.var: as_expr(0) if each.dom is None else each.dom.min for each in axes}


def _without_ones(operand: Operation, indices: Sequence[Expr], single: dict[Var, Expr]) -> Indexed:
    """Return the indices of the dimensions of an operand that are longer than one, and these."""
    shape = [n if isinstance(n, int) else 0 for n in operand.outputs[0].shape]
    kept = [i for i, extent in enumerate(shape) if extent != 1]
    return [substitute(indices[i], single) for i in kept], [shape[i] for i in kept]


def _run(read: Indexed, own: Sequence[IterVar]) -> int:
    """Return how many neighbours in memory are neighbouring rows, or columns; 1 if none are."""
    extents = {axis.var: extent_of(axis) for axis in own}
    run = 1
    for index, extent in zip(*map(reversed, read), strict=True):
        length = extents.get(index) if isinstance(index, Var) else None
        run *= length or 1
        if length != extent:
            break
    return run


class CopyPermuted:
    """Copy an operand in another order of dimensions, by tiles that go through shared memory."""

    name: ClassVar[str] = "CopyPermuted"

    def condition(self, context: SketchContext, state: State, stage_id: int) -> Condition:
        """Returns whether a stage is such a copy; it is never computed where it is read."""
        del context
        fits = permuted_by(state, stage_id) is not None
        return Condition.APPLY_AND_SKIP_REST if fits else Condition.PASS

    def apply(self, context: SketchContext, state: State, stage_id: int) -> Iterable[Derived]:
        """Tile the copy, and let a block read a tile in the order of memory.

        Where tiles of a product read it themselves, they get theirs first; it comes here again.
        """
        tiles = CacheRead()
        if tiles.condition(context, state, stage_id) is not Condition.PASS:
            return tiles.apply(context, state, stage_id)
        order = permuted_by(state, stage_id)
        assert order is not None
        new, source = state.copy(), stage_id - 1
        # Dimensions in which source and copy agree, the one that goes last, those it goes behind.
        before, last, behind = order[: order[-1]], order[-1:], order[order[-1] : -1]
        groups = [[order.index(i) for i in each] for each in (before, last, behind) if each]
        new.cache_read(source, view_scope(groups), [stage_id])
        new.cache_read(source + 1, "shared", [stage_id + 1])
        new.compute_inline(source + 1)
        _tile(new, stage_id + 2, len(before))
        return [(new, source)]


def permuted_by(state: State, stage_id: int) -> tuple[int, ...] | None:
    """Returns the order of dimensions in which a stage copies the one before, None if it is none.

    The last is a dimension of what is copied that has others behind it.
    """
    stage = state.stages[stage_id]
    if not stage.name.endswith(f".{PERMUTED}") or not isinstance(stage.op, ComputeOp):
        return None
    load = stage.op.body[0]
    source = state.stages[stage_id - 1]
    if not isinstance(load, ProducerLoad) or load.tensor.op is not source.op:
        return None
    if _pads_permuted(state, source.op):
        return None  # it says in which order that is read
    order = tuple([load.indices.index(axis.var) for axis in stage.op.axis])
    return order if order[:-1] == tuple(sorted(order[:-1])) else None


def _pads_permuted(state: State, op: Operation) -> bool:
    """Return whether an operation pads what was copied in another order."""
    if not isinstance(op, ComputeOp) or op.reduce_axis:
        return False
    read = [state.stages[state.stage_id(each)] for each in reads_of(op)]
    return any(each.name.endswith(f".{PERMUTED}") for each in read)


def _tile(state: State, stage_id: int, before: int) -> None:
    """Tile a copy for blocks, attach the shared tile before it there, and share out both."""
    op, loops = state.stages[stage_id].op, list(state.stages[stage_id].iters)
    several = _BANK_BYTES * 8 // bits_of(op.outputs[0].dtype)
    height, width = _tile_of([loop.extent or 1 for loop in loops[before:]], 4 * several)
    row = one_loop(state, stage_id, loops[before:-1])
    rows, row = state.split(stage_id, row, [height])
    columns, column = state.split(stage_id, loops[-1], [width])
    first, tile_loops = list(state.stages[stage_id].iters[:before]), [row, column]
    together = _together(first[-1].extent or 1 if first else 1, height * width)
    if together > 1:
        first[-1], of_block = state.split(stage_id, first[-1], [together])
        tile_loops = [of_block, *tile_loops]
    state.reorder(stage_id, [*first, rows, columns, *tile_loops])
    block = bind_together(state, stage_id, [*first, rows, columns], "blockIdx.x")
    # As many for all copies, so that lowering can make one kernel of them.
    _share_out(state, stage_id, tile_loops, several)
    tile = stage_id - 1
    state.compute_at(tile, stage_id, block)
    # Threads that are columns apart read from different banks.
    state.storage_align(tile, state.stages[tile].iters[-2], 2, 1)
    # All rows of a column, if they are an odd number, have no gap behind them: columns are a run.
    run = height == prod([loop.extent or 1 for loop in loops[before:-1]]) and height % 2 == 1
    _share_out(state, tile, state.stages[tile].iters, 4 * several if run and several > 1 else 1)


def _tile_of(extents: Sequence[int], unit: int) -> tuple[int, int]:
    """Return the rows of a tile, which are strided, and its columns: a multiple of a unit."""
    rows, channels = prod(extents[:-1]), extents[-1]
    height = ceil_div(rows, ceil_div(rows, _TILE))
    most = max(_TILE, _TILE * _TILE // height)
    return height, max(n for n in range(unit, most + 1, unit) if channels % n == 0)


def _together(count: int, size: int) -> int:
    """Return how many tiles of a size, of so many, a block copies: of filters of few channels."""
    return max(n for n in range(1, max(_TILE * _TILE // size, 1) + 1) if count % n == 0)


def _share_out(state: State, stage_id: int, loops: Sequence[Iterator], several: int) -> None:
    """Let threads carry out loops, some neighbours at a time."""
    fused = one_loop(state, stage_id, loops)
    lengths = [_THREADS, several] if several > 1 else [_THREADS]
    serial, thread, *lanes = state.split(stage_id, fused, lengths)
    # A loop that is bound right after its split would be taken for a reduction by threads.
    state.unroll(stage_id, serial)
    state.bind(stage_id, thread, "threadIdx.x")
    for each in lanes:
        state.vectorize(stage_id, each)
