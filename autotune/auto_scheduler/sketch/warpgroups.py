"""A rule for products of 16-bit floats and of TF32 on Hopper: four warps multiply by ``wgmma``.

The loops of a thread are those that `autotune.lowering.passes.warpgroups` expects; where the rule
of `TensorCores` fits too, both sketches are searched.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import ClassVar

from autotune.auto_scheduler.sketch.beside import tiled_beside
from autotune.auto_scheduler.sketch.groups import by_groups
from autotune.auto_scheduler.sketch.permuted import as_it_lies_and_permuted
from autotune.auto_scheduler.sketch.product_tiles import (
    MULTIPROCESSORS,
    Loops,
    Tile,
    bind_together,
    multiply_in_tiles,
    whole_and_in_parts,
)
from autotune.auto_scheduler.sketch.products import (
    COLUMNS,
    OWN_COLUMNS,
    ROWS,
    arch_of,
    product_of,
    tiles_of,
    untiled_product,
)
from autotune.auto_scheduler.sketch.rule import Condition, Derived, SketchContext
from autotune.auto_scheduler.states.loops import Iterator
from autotune.auto_scheduler.states.state import State
from autotune.auto_scheduler.transform_steps.loops import PERSISTENT, WGMMA, WGMMA_PASSED

# Rows of a thread in each tile of its warpgroup, warps of one, neighbouring columns of a thread.
HALVES, WARPS, OWN = 2, 4, OWN_COLUMNS[WGMMA]
# Rows of one instruction, and the columns that its columns are a multiple of.
TILE, UNIT = ROWS * HALVES * WARPS, COLUMNS * OWN
# Columns of a tile are a multiple of these where 16-bit floats of them are neighbours in memory.
PANEL = 64
# Of the smallest tiles persistent blocks, which most multiprocessors have, do at least two.
FEWEST_TILES = MULTIPROCESSORS * 4 // 3
# The only architecture that has these instructions.
ARCH = 90


class WarpgroupTensorCores:
    """Let groups of four warps multiply tiles of 16-bit floats, or of TF32, on Hopper."""

    name: ClassVar[str] = "WarpgroupTensorCores"

    def condition(self, context: SketchContext, state: State, stage_id: int) -> Condition:
        """Returns whether a stage is a product of at least one tile of a warpgroup."""
        if arch_of(context) != ARCH:
            return Condition.PASS
        given, _ = by_groups(context, state, stage_id, WGMMA, PANEL)
        found = untiled_product(context, state, stage_id, given.stages[stage_id].op, WGMMA)
        if found is None:
            return Condition.PASS
        fits = found.fits(TILE, PANEL, found.panel)
        return Condition.APPLY if fits else Condition.PASS

    def apply(self, context: SketchContext, state: State, stage_id: int) -> Iterable[Derived]:
        """Tile the stage that takes the results over, and mark the nest that computes them."""
        state, groups = by_groups(context, state, stage_id, WGMMA, PANEL)
        lying = as_it_lies_and_permuted(context, state, stage_id, WGMMA)
        kinds = [(*each, WGMMA) for each in lying] + [(*lying[0], WGMMA_PASSED)]
        for given, place, instructions in kinds:
            found = product_of(given.stages[place].op, instructions)
            if found is None:
                continue
            states = [given]
            if groups is None:
                states = whole_and_in_parts(context, given, place, found, found.panel)
            ways: list[tuple[State, Tile, int | None]] = [
                (each, TILINGS[0], None) for each in states
            ]
            turns = (
                found.divides(TILE, PANEL)
                and found.extents[2] >= 2 * found.panel  # they have two chunks at least
                and tiles_of(found, TILE, PANEL // 2) >= FEWEST_TILES
            )
            ways += [(given, each, None) for each in TILINGS[1:]] if turns else []
            if groups is None:
                beside = tiled_beside(context, given, place, instructions)
                ways += [] if beside is None else [(given, TILINGS[0], beside)]
            moved = None if groups is None else groups.moved(place - stage_id)
            for each, tile, other in ways:
                new, at, inner, _ = multiply_in_tiles(
                    context, each, place, instructions, tile, moved, other
                )
                new.pragma(at, inner, instructions)
                yield new, at - 1


def _tile(state: State, stage_id: int, loops: Loops) -> Iterator:
    """Tile rows and columns for blocks, virtual threads, warps and threads; return the last bound.

    Virtual threads are the tiles of a warpgroup, the runs of columns, and the rows of a thread in
    a tile: the order in which an instruction numbers its sums.
    """
    blocks, virtual, threads, own = split_in_tiles(state, stage_id, loops)
    state.reorder(stage_id, [*blocks, *virtual, *threads, own])
    bind_together(state, stage_id, blocks, "blockIdx.x")
    last = _bind(state, stage_id, virtual, threads)
    state.vectorize(stage_id, state.stages[stage_id].iters[-1])
    return last


def _tile_in_turn(state: State, stage_id: int, loops: Loops) -> Iterator:
    """Tile as `_tile` does, for persistent blocks; return the last virtual thread."""
    blocks, virtual, threads, own = split_in_tiles(state, stage_id, loops)
    state.reorder(stage_id, [*blocks, *threads, *virtual, own])
    fused = state.fuse(stage_id, blocks) if len(blocks) > 1 else blocks[0]
    turn, block = state.split(stage_id, fused, [None])
    state.reorder(stage_id, [block, *threads, turn, *virtual, own])
    state.bind(stage_id, block, "blockIdx.x")
    _bind(state, stage_id, virtual, threads)
    state.pragma(stage_id, turn, PERSISTENT)
    state.vectorize(stage_id, state.stages[stage_id].iters[-1])
    return state.stages[stage_id].iters[-2]


def split_in_tiles(
    state: State, stage_id: int, loops: Loops, runs: int | None = None
) -> tuple[list[Iterator], list[Iterator], list[Iterator], Iterator]:
    """Splits rows and columns; returns loops of blocks, of virtual threads, of threads, and own.

    How many runs of columns there are is open unless it is given.
    """
    batch, row, column = loops
    rows, half, lane_row = state.split(stage_id, row, [HALVES, ROWS])
    rows, warp = state.split(stage_id, rows, [WARPS])
    block_row, tile, group = state.split(stage_id, rows, [None, None])
    columns, lane_column, own = state.split(stage_id, column, [COLUMNS, OWN])
    block_column, run = state.split(stage_id, columns, [runs])
    threads = [group, warp, lane_row, lane_column]
    return [*batch, block_row, block_column], [tile, run, half], threads, own


def _bind(
    state: State, stage_id: int, virtual: Sequence[Iterator], threads: Sequence[Iterator]
) -> Iterator:
    """Bind the loops of virtual threads and threads; return the last of threads."""
    group, warp, lane_row, lane_column = threads
    for loop in virtual:
        state.bind(stage_id, loop, "vthread")
    bind_together(state, stage_id, [group, warp], "threadIdx.z")
    state.bind(stage_id, lane_row, "threadIdx.y")
    return state.bind(stage_id, lane_column, "threadIdx.x")


# Each makes a sketch of its own; turns are for tiles that are all whole.
TILINGS = (_tile, _tile_in_turn)
