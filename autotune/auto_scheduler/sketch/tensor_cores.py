"""A rule for products of 16-bit floats and of TF32: warps multiply tiles on tensor cores.

TVM's auto-scheduler has nothing of the kind. What a warp computes, and which loops its threads
have, is what `autotune.lowering.passes.tensor_cores` expects.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import ClassVar

from autotune.auto_scheduler.sketch.beside import tiled_beside
from autotune.auto_scheduler.sketch.groups import by_groups
from autotune.auto_scheduler.sketch.permuted import as_it_lies_and_permuted
from autotune.auto_scheduler.sketch.product_tiles import (
    Loops,
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
    untiled_product,
)
from autotune.auto_scheduler.sketch.rule import Condition, Derived, SketchContext
from autotune.auto_scheduler.states.loops import Iterator
from autotune.auto_scheduler.states.state import State
from autotune.auto_scheduler.transform_steps.loops import TENSOR_CORE

# Neighbouring columns of a thread.
OWN = OWN_COLUMNS[TENSOR_CORE]
# The first architecture with these instructions, for all types.
FIRST_ARCH = 80


class TensorCores:
    """Let warps multiply tiles of 16-bit floats, or of floats cut to TF32, on tensor cores."""

    name: ClassVar[str] = "TensorCores"

    def condition(self, context: SketchContext, state: State, stage_id: int) -> Condition:
        """Returns whether a stage is a product of at least one tile of a warp."""
        if arch_of(context) < FIRST_ARCH:
            return Condition.PASS
        given, _ = by_groups(context, state, stage_id, TENSOR_CORE, COLUMNS * OWN)
        found = untiled_product(context, state, stage_id, given.stages[stage_id].op, TENSOR_CORE)
        if found is None:
            return Condition.PASS
        fits = found.fits(2 * ROWS, COLUMNS * OWN, found.depth)
        return Condition.APPLY if fits else Condition.PASS

    def apply(self, context: SketchContext, state: State, stage_id: int) -> Iterable[Derived]:
        """Tile the stage that takes the results over, and mark the nest that computes them."""
        state, groups = by_groups(context, state, stage_id, TENSOR_CORE, COLUMNS * OWN)
        for given, place in as_it_lies_and_permuted(context, state, stage_id, TENSOR_CORE):
            found = product_of(given.stages[place].op, TENSOR_CORE)
            assert found is not None
            several = [given]
            if groups is None:
                several = whole_and_in_parts(context, given, place, found, found.depth)
            moved = None if groups is None else groups.moved(place - stage_id)
            ways: list[tuple[State, int | None]] = [(each, None) for each in several]
            if groups is None:
                beside = tiled_beside(context, given, place, TENSOR_CORE)
                ways += [] if beside is None else [(given, beside)]
            for each, other in ways:
                new, at, _, step = multiply_in_tiles(
                    context, each, place, TENSOR_CORE, tile_for_warps, moved, other
                )
                new.pragma(at, step, TENSOR_CORE)
                yield new, at - 1


def tile_for_warps(
    state: State,
    stage_id: int,
    loops: Loops,
    of_columns: tuple[int | None, int | None] = (None, None),
) -> Iterator:
    """Tiles rows and columns for blocks, virtual threads, warps, threads; returns the last loop.

    Rows of a thread are 8 apart, those of its virtual threads; its columns are 8 neighbours.
    How columns are tiled is open unless ``of_columns`` says it.
    """
    batch, row, column = loops
    rows, lane_row = state.split(stage_id, row, [ROWS])
    columns, lane_column, own = state.split(stage_id, column, [COLUMNS, OWN])
    tiles = [
        state.split(stage_id, rows, [None, None]),
        state.split(stage_id, columns, of_columns),
    ]
    blocks, virtual, warps = ([each[level] for each in tiles] for level in range(3))
    order = [*batch, *blocks, *virtual, *warps, lane_row, lane_column, own]
    state.reorder(stage_id, order)
    bind_together(state, stage_id, [*batch, *blocks], "blockIdx.x")
    for loop in virtual:
        state.bind(stage_id, loop, "vthread")
    bind_together(state, stage_id, warps, "threadIdx.z")
    state.bind(stage_id, lane_row, "threadIdx.y")
    return state.bind(stage_id, lane_column, "threadIdx.x")
