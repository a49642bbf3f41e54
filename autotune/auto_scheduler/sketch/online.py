"""A rule for products of a softmax of a product in parts of rows: one kernel for long rows.

As FlashAttention (Dao et al., 2022) does: a block computes some rows of the last product, and goes
through the parts of these rows. Scores and powers of a part are in shared memory, sums and results
so far in registers (`autotune.te.online`).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from math import prod
from typing import ClassVar

from autotune.auto_scheduler.graph.online import online_graph, weighted_stage
from autotune.auto_scheduler.sketch.caches import CacheRead
from autotune.auto_scheduler.sketch.in_block import (
    OPERAND_GAP,
    RESULT_GAP,
    TOGETHER,
    open_splits,
)
from autotune.auto_scheduler.sketch.inline import should_inline
from autotune.auto_scheduler.sketch.products import (
    COLUMNS,
    ROWS,
    arch_of,
    bind_together,
    product_of,
)
from autotune.auto_scheduler.sketch.rule import Condition, Derived, SketchContext
from autotune.auto_scheduler.sketch.stage_queries import (
    fusible_consumer,
    is_output,
    producers,
)
from autotune.auto_scheduler.sketch.tensor_cores import FIRST_ARCH, OWN, tile_for_warps
from autotune.auto_scheduler.states.loops import IterKind
from autotune.auto_scheduler.states.state import State
from autotune.auto_scheduler.transform_steps.loops import TENSOR_CORE
from autotune.te.online import RowParts
from autotune.te.relation import extent_of
from autotune.te.tensor import Operation
from autotune.te.weighted_rows import WeightedRows

# Lengths of the parts of rows, and parts that rows have at least.
_LENGTHS, _FEWEST = (64, 128), 3
# Bytes of all scores at least, which the cache of a GPU does not hold: kernels that write and read
# them took 19.4 us for 16 MiB on an H200, parts of rows 22.1; for 64 MiB 74.7 and 58.0.
LEAST_BYTES = 2**25
# Bytes of a factor and of a score, and steps of an instruction.
_HALF, _SCORE, _DEPTH = 2, 4, 16


class RowsInParts:
    """Compute a product of a softmax of a product in one kernel, a part of rows after another."""

    name: ClassVar[str] = "RowsInParts"

    def condition(self, context: SketchContext, state: State, stage_id: int) -> Condition:
        """Returns whether a stage is the last product of such a chain, of which all is plain."""
        if not context.is_gpu or arch_of(context) < FIRST_ARCH or state.transform_steps:
            return Condition.PASS
        found = weighted_stage(state.compute_dag, stage_id)
        fits = found is not None and _are_products(found) and _lengths(found)
        return Condition.APPLY if fits else Condition.PASS

    def apply(self, context: SketchContext, state: State, stage_id: int) -> Iterable[Derived]:
        """Begin with the graph in parts, for each length of these."""
        found = weighted_stage(state.compute_dag, stage_id)
        assert found is not None
        for length in _lengths(found):
            new = state.copy()
            new.online(stage_id, length)
            graph = online_graph(state.compute_dag, stage_id, length)
            assert graph is not None
            yield _in_parts(context, new, graph.parts)


def _lengths(found: WeightedRows) -> list[int]:
    """Return the lengths that parts of rows may have; none where all scores stay in the cache."""
    if prod(extent_of(axis) or 1 for axis in found.scores.axis) * _SCORE < LEAST_BYTES:
        return []
    most = found.length // _FEWEST
    return [n for n in _LENGTHS if n <= most and found.length % n == 0]


def _are_products(found: WeightedRows) -> bool:
    """Return whether both products are matrices of whole tiles, with rows and columns last."""
    for op in (found.scores, found.op):
        product = product_of(op, TENSOR_CORE)
        if product is None or product.item != _HALF:
            return False
        if not len(product.rows) == len(product.columns) == len(product.steps) == 1:
            return False
        if (product.rows[0], product.columns[0]) != tuple(op.axis[-2:]):
            return False
        if not product.divides(2 * ROWS, COLUMNS * OWN) or product.extents[2] % product.depth:
            return False
    last = product_of(found.op, TENSOR_CORE)
    assert last is not None
    rows = tuple([axis.var for axis in found.op.axis[:-1]])
    return last.operands[0] is found.weights.tensor.op and found.weights.indices[:-1] == rows


def _in_parts(context: SketchContext, new: State, parts: RowParts) -> Derived:
    """Return a state in which all parts are computed in one kernel, and the next stage."""
    root = _root(context, new, parts)
    loops = new.stages[root].iters
    lane = tile_for_warps(new, root, (list(loops[:-2]), loops[-2], loops[-1]))
    splits = open_splits(new, root)
    joined = new.stage_id(parts.joined)
    loops = new.stages[joined].iters
    new.reorder(joined, [loops[-1], *loops[:-1]])
    new.compute_at(joined, root, lane)
    products = new.stage_id(parts.products)
    _multiply(new, products, len(parts.products.axis) - 2)
    new.compute_at(products, joined, new.stages[joined].iters[0])
    new = _copied(context, new, products, parts.powers)
    for op in (parts.powers, parts.totals, parts.highest):
        _in_rows(new, op, parts.joined, splits)
    return new, _scores(new, parts, splits) - 1


def _root(context: SketchContext, new: State, parts: RowParts) -> int:
    """Return the stage that stores results, after all that is done to them elementwise."""
    result = new.stage_id(parts.result)
    for each in range(len(new.stages) - 1, result, -1):
        if should_inline(context, new, each):
            new.compute_inline(each)
    reader = fusible_consumer(context, new, result)
    if reader is None or is_output(context, new, result):
        return result
    new.compute_inline(result)
    return reader


def _multiply(state: State, stage_id: int, row: int) -> None:
    """Order the loops of a product for instructions, which are its last three, and mark them."""
    *data, k = state.stages[stage_id].iters
    chunk, step = state.split(stage_id, k, [_DEPTH])
    outer, inner = state.split(stage_id, chunk, [None])
    state.reorder(stage_id, [*data[:row], outer, inner, step, *data[row:]])
    state.pragma(stage_id, step, TENSOR_CORE)


def _copied(context: SketchContext, state: State, stage_id: int, other: Operation) -> State:
    """Return a state in which what a product reads, but for one stage, is copied tile by tile."""
    for source in sorted(producers(context, state, stage_id), reverse=True):
        if state.stages[source].op is not other:
            ((state, _),) = CacheRead().apply(context, state, source)
    return state


def _in_rows(state: State, op: Operation, joined: Operation, splits: Sequence[int]) -> None:
    """Compute a stage of rows of a part in shared memory, four threads a row."""
    at = state.stage_id(op)
    state.cache_write(at, "shared")
    state.compute_inline(at + 1)
    target = state.stage_id(joined)
    loops = state.stages[at].iters
    *outer, row, column = loops
    if column.iter_kind is not IterKind.REDUCTION:
        state.storage_align(at, row, *OPERAND_GAP)
    rows, lane_row = state.split(at, row, [ROWS])
    rows, warp = state.follow_fused_split(at, rows, splits, 1, True)
    runs, lane_column, own = state.split(at, column, [COLUMNS, TOGETHER])
    state.reorder(at, [*outer, rows, warp, lane_row, runs, lane_column, own])
    state.bind(at, warp, "threadIdx.z")
    state.bind(at, lane_row, "threadIdx.y")
    state.bind(at, lane_column, "threadIdx.x")
    if column.iter_kind is not IterKind.REDUCTION:
        state.vectorize(at, state.stages[at].iters[-1])
    state.compute_at(at, target, state.stages[target].iters[0])


def _scores(state: State, parts: RowParts, splits: Sequence[int]) -> int:
    """Multiply the scores of a part to shared memory; return the stage of the product."""
    at = state.stage_id(parts.scores)
    state.cache_write(at, "shared")
    state.compute_inline(at + 1)
    state.cache_write(at, "local")
    stored, target = at + 1, state.stage_id(parts.joined)
    *batch, row, column = state.stages[stored].iters
    state.storage_align(stored, row, *RESULT_GAP)
    rows, lane_row = state.split(stored, row, [ROWS])
    columns, lane_column, own = state.split(stored, column, [COLUMNS, OWN])
    tiles = zip((rows, columns), splits, strict=True)
    each = [state.follow_split(stored, loop, source, 2) for loop, source in tiles]
    outer, virtual, warps = ([loops[level] for loops in each] for level in range(3))
    order = [*batch, *outer, *virtual, *warps, lane_row, lane_column, own]
    state.reorder(stored, order)
    for loop in virtual:
        state.bind(stored, loop, "vthread")
    bind_together(state, stored, warps, "threadIdx.z")
    state.bind(stored, lane_row, "threadIdx.y")
    lane = state.bind(stored, lane_column, "threadIdx.x")
    state.vectorize(stored, own)
    _multiply(state, at, len(parts.scores.axis) - 2)
    state.compute_at(at, stored, lane)
    state.compute_at(stored, target, state.stages[target].iters[0])
    return at
