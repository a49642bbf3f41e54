"""A rule for products of a softmax of a product, as attention is: one kernel for all of it.

A block that computes some rows of the last product needs the same rows of what is before it, and
of no others: the first product, its rows' sums, and the operand that depends on both stay in
shared memory. That is the first step to the kernels of FlashAttention (Dao et al., 2022), which
hold parts of rows alone; here rows are whole, so they have to fit.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import ClassVar

from autotune.auto_scheduler.graph.reads import reads_of
from autotune.auto_scheduler.sketch.caches import CacheRead
from autotune.auto_scheduler.sketch.inline import should_inline
from autotune.auto_scheduler.sketch.product_tiles import Loops, bind_together, multiply_in_tiles
from autotune.auto_scheduler.sketch.products import (
    COLUMNS,
    ROWS,
    Product,
    arch_of,
    product_of,
    untiled_product,
)
from autotune.auto_scheduler.sketch.rule import Condition, Derived, SketchContext
from autotune.auto_scheduler.sketch.stage_queries import (
    consumers,
    has_reduction,
    is_output,
    is_untouched,
    loops_of,
    producers,
)
from autotune.auto_scheduler.sketch.stored import with_inlined_producers
from autotune.auto_scheduler.sketch.tensor_cores import FIRST_ARCH, OWN, tile_for_warps
from autotune.auto_scheduler.states.loops import Iterator, IterKind
from autotune.auto_scheduler.states.state import State
from autotune.auto_scheduler.transform_steps import SplitStep
from autotune.auto_scheduler.transform_steps.loops import TENSOR_CORE

# Neighbours of the operand that a thread computes at once: those of a bank of shared memory. Four
# threads have a row, so that a warp has eight rows at once, and waits for sums of them once.
TOGETHER = 2
# Elements of a row at most. Of 512, of which a block holds 64 rows, three kernels took 21.1 us on
# an H100, and this one 23.5; of 128 it took 8.8 us, three 13.4.
_LONGEST = 256
# The rests, modulo the units, that rows in shared memory are long, of the operand and of results
# of the first product: threads that are rows apart then use different banks.
OPERAND_GAP, RESULT_GAP = (16, 8), (32, 4)


@dataclass(frozen=True)
class _Chain:
    """What is before a product whose left operand depends on rows of another product.

    Attributes:
        state: in which what may be inlined before the operand is.
        operand: the stage of the left operand, which
        sums: are of rows of; each is read by the operand or by another one, and
        first: the product whose results all of these read.
    """

    state: State
    operand: int
    sums: Sequence[int]
    first: int


class RowsInBlock:
    """Compute a product, sums of its rows and the product of what these give in one kernel."""

    name: ClassVar[str] = "RowsInBlock"

    def condition(self, context: SketchContext, state: State, stage_id: int) -> Condition:
        """Returns whether a stage is the second product of such a chain."""
        if not context.is_gpu or arch_of(context) < FIRST_ARCH:
            return Condition.PASS
        return Condition.PASS if _chain(context, state, stage_id) is None else Condition.APPLY

    def apply(self, context: SketchContext, state: State, stage_id: int) -> Iterable[Derived]:
        """Tile the last product, and compute the rest for the rows of a block."""
        chain = _chain(context, state, stage_id)
        assert chain is not None
        reads_tiles = producers(context, chain.state, stage_id)
        new, at, _, step = multiply_in_tiles(
            context, chain.state, stage_id, TENSOR_CORE, tile_for_warps
        )
        new.pragma(at, step, TENSOR_CORE)
        root, _ = new.state_object.attach[at]
        splits = open_splits(new, root)
        # Stages that are added come before those that are left.
        for source in sorted(set(reads_tiles) - {chain.operand}, reverse=True):
            ((new, _),) = CacheRead().apply(context, new, source)
            root += 1
        _operand_in_block(new, chain, root, splits)
        return [(_first_in_block(context, new, chain, root + 1, splits), chain.first - 1)]


def _chain(context: SketchContext, state: State, stage_id: int) -> _Chain | None:
    """Return what is before a product; None where it is of another kind."""
    found = untiled_product(context, state, stage_id, state.stages[stage_id].op, TENSOR_CORE)
    if (
        found is None
        or not _is_plain(found)
        or not found.fits(2 * ROWS, COLUMNS * OWN, found.depth)
        or found.extents[2] % found.depth
    ):
        return None
    operand = state.stage_id(found.operands[0])
    indices = reads_of(state.stages[stage_id].op)[found.operands[0]][0]
    if indices[-2:] != (found.rows[0].var, found.steps[0].var):
        return None
    if not should_inline(context, state, operand):
        return None
    if consumers(context, state, operand) != [stage_id]:
        return None
    new = with_inlined_producers(context, state, operand)
    before = [each for each in producers(context, new, operand) if new.stages[each].is_compute]
    sums = [each for each in before if has_reduction(new.stages[each])]
    firsts = [each for each in sums if product_of(new.stages[each].op, TENSOR_CORE)]
    if len(firsts) != 1 or before != sums:
        return None
    (first,) = firsts
    sums = [each for each in sums if each != first]
    chain = _Chain(new, operand, sums, first)
    return chain if _is_of_rows(context, chain) else None


def _is_of_rows(context: SketchContext, chain: _Chain) -> bool:
    """Return whether all stages are of the same rows, and none is stored or read elsewhere."""
    state, first = chain.state, chain.first
    inner = [*chain.sums, first]
    if any(is_output(context, state, each) for each in inner) or not chain.sums:
        return False
    readers = {reader for each in inner for reader in consumers(context, state, each)}
    if not readers <= {*chain.sums, chain.operand}:
        return False
    op, access = state.stages[chain.operand].op, context.access(state)
    outer = len(op.axis) - 1
    if any(
        access.num_common_outer_iterators(state.stages[each].op, op) != outer for each in inner
    ):
        return False
    return _is_first(context, state, first) and all(
        is_untouched(state, each)
        and len(state.stages[each].op.axis) == outer
        and len(loops_of(state.stages[each], IterKind.REDUCTION)) == 1
        for each in chain.sums
    )


def _is_first(context: SketchContext, state: State, stage_id: int) -> bool:
    """Return whether a product's last dimensions are rows and columns, which are not too many."""
    op = state.stages[stage_id].op
    found = untiled_product(context, state, stage_id, op, TENSOR_CORE)
    if found is None or not _is_plain(found):
        return False
    whole = found.divides(2 * ROWS, COLUMNS * OWN) and found.extents[2] % found.depth == 0
    in_order = (found.rows[0], found.columns[0]) == tuple(op.axis[-2:])
    return whole and in_order and found.extents[1] <= _LONGEST


def _is_plain(found: Product) -> bool:
    """Return whether rows, columns and steps are an axis each, so that operands are matrices."""
    return len(found.rows) == len(found.columns) == len(found.steps) == 1


def open_splits(state: State, stage_id: int) -> list[int]:
    """Return the steps that tile the rows and the columns of a stage: its last splits."""
    steps = state.transform_steps
    own = [
        i
        for i, step in enumerate(steps)
        if isinstance(step, SplitStep) and step.stage_id == stage_id and None in step.lengths
    ]
    return own[-2:]


def _operand_in_block(state: State, chain: _Chain, root: int, splits: Sequence[int]) -> None:
    """Compute the operand, and sums of its rows, for a block of the root; it comes one later."""
    operand, *sums = (
        state.stage_id(chain.state.stages[each].op)
        for each in (chain.operand, *sorted(chain.sums, reverse=True))
    )
    state.cache_write(operand, "shared")
    state.compute_inline(operand + 1)
    root += 1
    state.compute_at(operand, root, state.stages[root].iters[0])
    *batch, row, column = state.stages[operand].iters
    state.storage_align(operand, row, *OPERAND_GAP)
    rows, lane_row = state.split(operand, row, [ROWS])
    rows, warp = state.follow_fused_split(operand, rows, splits, 1, True)
    runs, lane_column, own = state.split(operand, column, [COLUMNS, TOGETHER])
    state.reorder(operand, [*batch, rows, warp, lane_row, runs, lane_column, own])
    state.bind(operand, warp, "threadIdx.z")
    state.bind(operand, lane_row, "threadIdx.y")
    state.bind(operand, lane_column, "threadIdx.x")
    state.vectorize(operand, state.stages[operand].iters[-1])
    place = len(batch) + 2
    for each in sums:
        (k,) = loops_of(state.stages[each], IterKind.REDUCTION)
        _, lane_column, _ = state.split(each, k, [COLUMNS, TOGETHER])
        state.bind(each, lane_column, "threadIdx.x")
        state.compute_at(each, operand, state.stages[operand].iters[place])


def _first_in_block(
    context: SketchContext, state: State, chain: _Chain, root: int, splits: Sequence[int]
) -> State:
    """Return a state in which the first product is computed for the rows of a block."""

    def tile(new: State, stage_id: int, loops: Loops) -> Iterator:
        batch, row, column = loops
        new.storage_align(stage_id, row, *RESULT_GAP)
        rows, lane_row = new.split(stage_id, row, [ROWS])
        columns, lane_column, own = new.split(stage_id, column, [COLUMNS, OWN])
        tiles = zip((rows, columns), splits, strict=True)
        each = [new.follow_split(stage_id, loop, source, 2) for loop, source in tiles]
        outer, virtual, warps = ([loops[level] for loops in each] for level in range(3))
        order = [*batch, *outer, *virtual, *warps, lane_row, lane_column, own]
        new.reorder(stage_id, order)
        for loop in virtual:
            new.bind(stage_id, loop, "vthread")
        bind_together(new, stage_id, warps, "threadIdx.z")
        new.bind(stage_id, lane_row, "threadIdx.y")
        return new.bind(stage_id, lane_column, "threadIdx.x")

    first = state.stage_id(chain.state.stages[chain.first].op)
    state.cache_write(first, "shared")
    state.compute_inline(first + 1)
    new, at, _, step = multiply_in_tiles(context, state, first, TENSOR_CORE, tile)
    new.pragma(at, step, TENSOR_CORE)
    # A cache in shared memory, and one in registers.
    new.compute_at(at + 1, root + 2, new.stages[root + 2].iters[0])
    return new
