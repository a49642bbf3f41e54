"""Tiles of rows of attention in parts, by the instructions that multiply both products.

A thread has the same rows and columns of scores, of powers and of results: those that the
instructions leave in it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, Protocol

from autotune.auto_scheduler.sketch.product_tiles import Loops, bind_together
from autotune.auto_scheduler.sketch.products import COLUMNS, ROWS, Product
from autotune.auto_scheduler.sketch.tensor_cores import OWN, tile_for_warps
from autotune.auto_scheduler.sketch.warpgroups import (
    HALVES,
    TILE,
    UNIT,
    WARPS,
    split_in_tiles,
)
from autotune.auto_scheduler.states.loops import Iterator
from autotune.auto_scheduler.states.state import State
from autotune.auto_scheduler.transform_steps.loops import TENSOR_CORE, WGMMA

# Steps of an instruction of 16-bit floats.
DEPTH = 16
# Runs of neighbouring scores that a thread multiplies at once by ``mma.sync``.
_RUNS = 8


@dataclass(frozen=True)
class RowLoops:
    """The loops over rows of a stage: those of a block, of a thread, of warps, and of a warp."""

    outer: Iterator
    own: Sequence[Iterator]
    warps: Sequence[Iterator]
    lane: Iterator


class PartTiles(Protocol):
    """How rows and columns are tiled for some instructions.

    Attributes:
        instructions: these.
        apart: how far apart columns are that are joined together.
        tile: of how many rows products with zeros beyond ends are a multiple.
        depth: of how many columns, and steps of scores.
    """

    instructions: ClassVar[str]
    apart: ClassVar[int]
    tile: ClassVar[int]
    depth: ClassVar[int]

    def fits(self, product: Product) -> bool:
        """Return whether tiles of a product are whole."""

    def root(self, state: State, stage_id: int, loops: Loops, columns: int) -> Iterator:
        """Tile the stage that stores results for blocks and threads; return the last of these."""

    def rows(self, state: State, stage_id: int, row: Iterator, tile: int) -> RowLoops:
        """Split a loop over rows as a step did that of the results."""

    def virtual(
        self, state: State, stage_id: int, rows: RowLoops, runs: Iterator
    ) -> list[Iterator]:
        """Return the loops of what a thread multiplies at once, of rows and of runs of columns."""

    def mark(self, state: State, stage_id: int, chunk: Iterator, step: Iterator) -> None:
        """Mark loops over instructions, and over their steps."""


class WarpTiles:
    """Tiles of warps, which multiply by ``mma.sync``."""

    instructions: ClassVar[str] = TENSOR_CORE
    apart: ClassVar[int] = 1
    tile: ClassVar[int] = COLUMNS * OWN
    depth: ClassVar[int] = COLUMNS * OWN

    def fits(self, product: Product) -> bool:
        """Return whether tiles of a product are whole."""
        whole = product.divides(2 * ROWS, COLUMNS * OWN)
        return whole and product.extents[2] % product.depth == 0

    def root(self, state: State, stage_id: int, loops: Loops, columns: int) -> Iterator:
        """Tile for blocks and threads, which have 8 neighbouring columns."""
        return tile_for_warps(state, stage_id, loops, (columns // (COLUMNS * OWN), 1))

    def rows(self, state: State, stage_id: int, row: Iterator, tile: int) -> RowLoops:
        """Split a loop over rows as a step did that of the results."""
        rows, lane = state.split(stage_id, row, [ROWS])
        outer, own, warp = state.follow_split(stage_id, rows, tile, 2)
        return RowLoops(outer, [own], [warp], lane)

    def virtual(
        self, state: State, stage_id: int, rows: RowLoops, runs: Iterator
    ) -> list[Iterator]:
        """Return rows before runs, of which so many at a time are written out."""
        several, runs = state.split(stage_id, runs, [_RUNS])
        return [*rows.own, several, runs]

    def mark(self, state: State, stage_id: int, chunk: Iterator, step: Iterator) -> None:
        """Mark the steps of each instruction."""
        state.unroll(stage_id, chunk)
        state.pragma(stage_id, step, TENSOR_CORE)


class WarpgroupTiles:
    """Tiles of four warps, which multiply by ``wgmma``: the powers as the registers have them."""

    instructions: ClassVar[str] = WGMMA
    apart: ClassVar[int] = 8
    tile: ClassVar[int] = TILE
    depth: ClassVar[int] = DEPTH

    def fits(self, product: Product) -> bool:
        """Return whether tiles of a product are whole; rows in shared memory need not be."""
        return product.divides(TILE, UNIT) and product.extents[2] % product.depth == 0

    def root(self, state: State, stage_id: int, loops: Loops, columns: int) -> Iterator:
        """Tile for blocks and threads, which have two of each 8 columns."""
        blocks, (tile, run, half), threads, own = split_in_tiles(
            state, stage_id, loops, columns // self.apart
        )
        group, warp, lane_row, lane_column = threads
        state.reorder(stage_id, [*blocks, tile, half, *threads, run, own])
        bind_together(state, stage_id, blocks, "blockIdx.x")
        for loop in (tile, half):
            state.bind(stage_id, loop, "vthread")
        bind_together(state, stage_id, [group, warp], "threadIdx.z")
        state.bind(stage_id, lane_row, "threadIdx.y")
        state.unroll(stage_id, run)
        state.vectorize(stage_id, own)
        return state.bind(stage_id, lane_column, "threadIdx.x")

    def rows(self, state: State, stage_id: int, row: Iterator, tile: int) -> RowLoops:
        """Split a loop over rows as a step did that of the results."""
        rows, half, lane = state.split(stage_id, row, [HALVES, ROWS])
        rows, warp = state.split(stage_id, rows, [WARPS])
        outer, own, group = state.follow_split(stage_id, rows, tile, 2)
        return RowLoops(outer, [own, half], [group, warp], lane)

    def virtual(
        self, state: State, stage_id: int, rows: RowLoops, runs: Iterator
    ) -> list[Iterator]:
        """Return the loops in the order in which an instruction numbers its sums."""
        tile, half = rows.own
        return [tile, runs, half]

    def mark(self, state: State, stage_id: int, chunk: Iterator, step: Iterator) -> None:
        """Mark the loop over instructions."""
        state.pragma(stage_id, chunk, WGMMA)


PART_TILES: Sequence[PartTiles] = (WarpTiles(), WarpgroupTiles())
