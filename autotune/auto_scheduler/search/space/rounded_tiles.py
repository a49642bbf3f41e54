"""Tiles of products on tensor cores whose rows or columns no tile divides.

Extents are rounded up, so that tiles of several sizes divide them; the last tile is partial.
"""

from __future__ import annotations

from dataclasses import dataclass

from autotune.auto_scheduler.search.space.program import FactorSlot, Slot
from autotune.auto_scheduler.search.space.steps import splits_of, tiling_splits
from autotune.auto_scheduler.sketch.products import COLUMNS, ROWS, product_of
from autotune.auto_scheduler.sketch.tensor_cores import OWN
from autotune.auto_scheduler.sketch.warpgroups import PANEL, TILE, UNIT
from autotune.auto_scheduler.states.loop_state import StateObject
from autotune.auto_scheduler.transform_steps import OnlineStep, SplitStep
from autotune.auto_scheduler.transform_steps.loops import TENSOR_CORE, WARPGROUPS
from autotune.utils.math import ceil_div, round_up

# How much more rows and columns may be counted as than there are.
_LITTLE_MORE = 9 / 8


@dataclass(frozen=True)
class TileSide:
    """The rows, or the columns, of tiles of blocks.

    Attributes:
        split: which split of the stage at whose loops the product is attached makes these tiles.
        unit: rows, or columns, of one iteration of the loop that it splits.
        multiple: what the iterations of a tile are a multiple of.
    """

    split: int
    unit: int
    multiple: int


# By the instructions: rows and columns.
TILE_SIDES = {
    TENSOR_CORE: (TileSide(-2, ROWS, 2), TileSide(-1, COLUMNS * OWN, 1)),
    **dict.fromkeys(WARPGROUPS, (TileSide(2, TILE, 1), TileSide(4, UNIT, PANEL // UNIT))),
}


def rounded_tiles(sketch: StateObject, innermost: int) -> dict[int, Slot]:
    """Return the slots of splits of rows and columns that tiles of products need not divide.

    What they split has divisors, and is an eighth more at most where that can be.
    """
    found: dict[int, Slot] = {}
    for stage_id in sketch.attach:
        instructions = sketch.stages[stage_id].attrs.tensor_core
        if not instructions:
            continue
        product = product_of(sketch.stages[stage_id].op, instructions)
        assert product is not None
        of_root = tiling_splits(sketch, stage_id)
        for side, extent in zip(TILE_SIDES[instructions], product.extents[:2], strict=True):
            if extent % (side.unit * side.multiple):
                rounded = _rounded(ceil_div(extent, side.unit), side.multiple)
                found |= _slot(sketch, of_root[side.split], rounded, innermost)
        if _has_zeros_behind_rows(sketch):
            rows, _ = TILE_SIDES[instructions]
            extent, _, _ = product.of_last_rows.extents
            if extent % (rows.unit * rows.multiple) == 0:
                found |= _slot(sketch, of_root[rows.split], extent // rows.unit, innermost)
        unit = product.depth if instructions == TENSOR_CORE else product.panel
        if product.extents[2] % unit:
            number = splits_of(sketch.transform_steps, stage_id)[-1]
            count = ceil_div(product.extents[2], product.depth)
            rounded = _rounded(count, unit // product.depth)
            found[number] = FactorSlot(number, rounded, 1, innermost)
    return found


def _has_zeros_behind_rows(sketch: StateObject) -> bool:
    """Return whether products have rows behind those of results, which tiles divide with them."""
    match sketch.transform_steps[:1]:
        case [OnlineStep(tile=tile)]:
            return tile > 0
    return False


def _slot(sketch: StateObject, number: int, extent: int, innermost: int) -> dict[int, Slot]:
    """Return the slot of a split, as if it were of another extent."""
    step = sketch.transform_steps[number]
    assert isinstance(step, SplitStep)
    return {number: FactorSlot(number, extent, len(step.lengths), innermost)}


def _rounded(count: int, multiple: int) -> int:
    """Return a multiple that is not less than a number, and has other divisors where it can."""
    for unit in (8, 4, 2):
        more = round_up(count, unit)
        if more <= count * _LITTLE_MORE and more % multiple == 0:
            return more
    return round_up(count, multiple)
