"""A rule for products of a softmax of a product in parts of rows: one kernel for long rows.

As FlashAttention (Dao et al., 2022) does: a block computes some rows of the last product, and goes
through the parts of these rows (`autotune.te.online`). A warp has rows of its own, so that what is
between the products stays in registers: a thread has those scores that instructions of tensor
cores leave in it, and its powers of them are what it passes to the next instructions.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import ClassVar

from autotune.auto_scheduler.graph.online import online_graph, weighted_stage
from autotune.auto_scheduler.sketch.in_block import TOGETHER, open_splits
from autotune.auto_scheduler.sketch.inline import should_inline
from autotune.auto_scheduler.sketch.part_tiles import DEPTH, PART_TILES, PartTiles
from autotune.auto_scheduler.sketch.product_tiles import bind_together
from autotune.auto_scheduler.sketch.products import COLUMNS, arch_of, product_of
from autotune.auto_scheduler.sketch.rule import Condition, Derived, SketchContext
from autotune.auto_scheduler.sketch.stage_queries import (
    fusible_consumer,
    is_output,
)
from autotune.auto_scheduler.sketch.tensor_cores import FIRST_ARCH
from autotune.auto_scheduler.sketch.warpgroups import ARCH
from autotune.auto_scheduler.states.loops import Iterator
from autotune.auto_scheduler.states.state import State
from autotune.auto_scheduler.transform_steps import OnlineStep
from autotune.auto_scheduler.transform_steps.loops import TENSOR_CORE
from autotune.te.online import RowParts
from autotune.te.relation import extent_of
from autotune.te.tensor import Operation
from autotune.te.weighted_rows import WeightedRows
from autotune.te.whole_tiles import in_whole_tiles, is_longer

# Lengths of the parts of rows; columns of results at most, as a warp has whole rows of these in
# registers. Short rows, whose scores the cache of a GPU holds, are faster so too: of 512 three
# kernels took 21.1 us on an H200, parts 8.0; of 256 a block that has whole rows 18.4, parts 7.9.
_LENGTHS, _MOST_COLUMNS = (64, 128), 128
# Bytes of a factor.
_HALF = 2


class RowsInParts:
    """Compute a product of a softmax of a product in one kernel, a part of rows after another."""

    name: ClassVar[str] = "RowsInParts"

    def condition(self, context: SketchContext, state: State, stage_id: int) -> Condition:
        """Returns whether a stage is the last product of such a chain, of which all is plain.

        What is computed in parts already is left as it is.
        """
        if _has_place(state, stage_id):
            return Condition.APPLY_AND_SKIP_REST
        if not context.is_gpu or arch_of(context) < FIRST_ARCH or state.transform_steps:
            return Condition.PASS
        found = weighted_stage(state.compute_dag, stage_id)
        ways = [] if found is None else _ways(context, found)
        return Condition.APPLY if ways else Condition.PASS

    def apply(self, context: SketchContext, state: State, stage_id: int) -> Iterable[Derived]:
        """Begin with the graph in parts, of each length, by each kind of instructions."""
        if _has_place(state, stage_id):
            yield state, stage_id - 1
            return
        found = weighted_stage(state.compute_dag, stage_id)
        assert found is not None
        for tiles, length, ends in _ways(context, found):
            new = state.copy()
            new.online(stage_id, length, tiles.apart, *ends)
            graph = online_graph(state.compute_dag, stage_id, length, tiles.apart, *ends)
            assert graph is not None
            yield _in_parts(context, new, graph.parts, tiles)


def _has_place(state: State, stage_id: int) -> bool:
    """Return whether a stage is computed in a loop of a graph in parts."""
    steps = state.transform_steps
    in_parts = bool(steps) and isinstance(steps[0], OnlineStep)
    return in_parts and stage_id in state.state_object.attach


def _ways(
    context: SketchContext, found: WeightedRows
) -> list[tuple[PartTiles, int, tuple[int, ...]]]:
    """Return tiles of both products, with lengths of parts, and what extents are multiples of.

    That is nothing where both are of whole tiles. Where warpgroups may multiply such, single warps
    do not: they took 1.4 to 2 times as long.
    """
    arch = arch_of(context)
    kinds = [tiles for tiles in PART_TILES if tiles.instructions == TENSOR_CORE or arch == ARCH]
    fitting = [tiles for tiles in kinds if _are_products(found, tiles)]
    lengths = [n for n in _LENGTHS if found.length % n == 0]
    ways: list[tuple[PartTiles, int, tuple[int, ...]]] = [
        (tiles, length, ()) for tiles in fitting[-1:] for length in lengths
    ]
    if ways and fitting[-1] is kinds[-1]:
        return ways
    return ways + [
        (kinds[-1], length, (kinds[-1].tile, kinds[-1].depth))
        for length in _LENGTHS
        if length < 2 * found.length and _are_products_of_zeros(found, kinds[-1], length)
    ]


def _are_products_of_zeros(found: WeightedRows, tiles: PartTiles, length: int) -> bool:
    """Return whether with zeros, at most as much as there is, products are of whole tiles."""
    longer = in_whole_tiles(found, length, tiles.tile, tiles.depth)
    if longer is None or not _are_products(longer, tiles):
        return False
    rows, keys = found.scores.axis[-2:]
    deep = [found.op.axis[-1], *found.scores.reduce_axis]
    most = [(rows, tiles.tile), (keys, tiles.tile), *[(axis, tiles.depth) for axis in deep]]
    return all(2 * (extent_of(axis) or 1) >= unit for axis, unit in most)


def _are_products(found: WeightedRows, tiles: PartTiles) -> bool:
    """Return whether both products are matrices of whole tiles, with rows and columns last."""
    for op in (found.scores, found.op):
        product = product_of(op, tiles.instructions)
        if product is None or product.item != _HALF:
            return False
        product = product.of_last_rows
        if not len(product.columns) == len(product.steps) == 1:
            return False
        if (product.rows[0], product.columns[0]) != tuple(op.axis[-2:]):
            return False
        if not tiles.fits(product):
            return False
    last = product_of(found.op, tiles.instructions)
    assert last is not None
    if last.extents[1] > _MOST_COLUMNS:
        return False
    rows = tuple([axis.var for axis in found.op.axis[:-1]])
    return last.operands[0] is found.weights.tensor.op and found.weights.indices[:-1] == rows


def _in_parts(context: SketchContext, new: State, parts: RowParts, tiles: PartTiles) -> Derived:
    """Return a state in which all parts are computed in one kernel, and the next stage."""
    root = _root(context, new, parts)
    top, loops = new.stages[root].op, new.stages[root].iters
    columns = parts.columns
    lane = tiles.root(new, root, (list(loops[:-2]), loops[-2], loops[-1]), columns)
    (tile,) = open_splits(new, root)
    joined = new.stage_id(parts.joined)
    loops = new.stages[joined].iters
    new.reorder(joined, [loops[-1], *loops[:-1]])
    new.compute_at(joined, root, lane)
    products = new.stage_id(parts.products)
    _multiply(new, products, len(parts.result.axis) - 1, tiles)
    new.compute_at(products, joined, new.stages[joined].iters[0])
    inner = new.stages[joined].iters[0]
    for op in _operands(parts.products, tiles):
        if op is not parts.powers:
            _copy(new, op, parts.products, parts.joined, inner)
    for op in (parts.powers, parts.totals, parts.exact, parts.highest):
        _in_rows(new, op, parts.joined, tile, tiles)
    scores = _scores(new, parts, tile, tiles)
    queries, keys = _operands(parts.scores, tiles)
    product = new.stages[scores].op
    _copy(new, keys, product, parts.joined, inner)
    block = new.stages[new.stage_id(top)].iters[0]
    _copy(new, queries, product, top, block)
    return new, new.stage_id(product) - 1


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


def _multiply(state: State, stage_id: int, row: int, tiles: PartTiles) -> None:
    """Order the loops of a product for instructions, the last from that of rows, and mark them."""
    *data, k = state.stages[stage_id].iters
    chunk, step = state.split(stage_id, k, [DEPTH])
    state.reorder(stage_id, [*data[:row], chunk, step, *data[row:]])
    tiles.mark(state, stage_id, chunk, step)


def _operands(op: Operation, tiles: PartTiles) -> tuple[Operation, Operation]:
    """Return what a product on tensor cores reads: the factor of rows, and that of columns."""
    product = product_of(op, tiles.instructions)
    assert product is not None
    return product.operands


def _copy(
    state: State, source: Operation, product: Operation, target: Operation, loop: Iterator
) -> None:
    """Copy what a product reads to shared memory, in a loop of another stage."""
    place = state.stage_id(source)
    state.cache_read(place, "shared", [state.stage_id(product)])
    state.compute_at(place + 1, state.stage_id(target), loop)
    if is_longer(source):
        state.compute_inline(place)


def _in_rows(state: State, op: Operation, joined: Operation, tile: int, tiles: PartTiles) -> None:
    """Compute a stage of rows of a part as threads have the scores, four threads a row."""
    at = state.stage_id(op)
    state.cache_write(at, "warp")
    state.compute_inline(at + 1)
    target = state.stage_id(joined)
    *outer, row, column = state.stages[at].iters
    rows = tiles.rows(state, at, row, tile)
    runs, lane_column, own = state.split(at, column, [COLUMNS, TOGETHER])
    order = [*outer, rows.outer, *rows.own, *rows.warps, rows.lane, runs, lane_column, own]
    state.reorder(at, order)
    for loop in (*rows.own, runs):
        state.unroll(at, loop)
    bind_together(state, at, rows.warps, "threadIdx.z")
    state.bind(at, rows.lane, "threadIdx.y")
    state.bind(at, lane_column, "threadIdx.x")
    state.compute_at(at, target, state.stages[target].iters[0])


def _scores(state: State, parts: RowParts, tile: int, tiles: PartTiles) -> int:
    """Multiply the scores of a part in registers; return the stage of the product."""
    at = state.stage_id(parts.scores)
    state.cache_write(at, "warp")
    state.compute_inline(at + 1)
    state.cache_write(at, "local")
    stored, target = at + 1, state.stage_id(parts.joined)
    *batch, row, column = state.stages[stored].iters
    rows = tiles.rows(state, stored, row, tile)
    runs, lane_column, own = state.split(stored, column, [COLUMNS, TOGETHER])
    virtual = tiles.virtual(state, stored, rows, runs)
    order = [*batch, rows.outer, *virtual, *rows.warps, rows.lane, lane_column, own]
    state.reorder(stored, order)
    for loop in virtual:
        state.bind(stored, loop, "vthread")
    bind_together(state, stored, rows.warps, "threadIdx.z")
    state.bind(stored, rows.lane, "threadIdx.y")
    lane = state.bind(stored, lane_column, "threadIdx.x")
    _multiply(state, at, len(parts.scores.axis) - 2, tiles)
    state.compute_at(at, stored, lane)
    state.compute_at(stored, target, state.stages[target].iters[0])
    return at
