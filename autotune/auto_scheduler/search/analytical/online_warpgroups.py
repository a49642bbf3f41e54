"""The analytical cost model of attention in parts of rows whose warpgroups multiply by ``wgmma``.

See `autotune.auto_scheduler.sketch.part_tiles`: instructions read keys, values and queries from
shared memory, and powers from registers.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property

import numpy as np

from autotune.auto_scheduler.search.analytical.gpu_parameters import GpuParameters
from autotune.auto_scheduler.search.analytical.online import OnlineCostModel, OnlineShape
from autotune.auto_scheduler.search.analytical.products import Column, ProductShape
from autotune.auto_scheduler.search.space.program import Program, Rows
from autotune.auto_scheduler.search.space.sampler import ProductLimit
from autotune.auto_scheduler.sketch.products import COLUMNS, ROWS
from autotune.auto_scheduler.sketch.warpgroups import HALVES, TILE, UNIT, WARPS

# Tiles of a warpgroup, and warpgroups of a block at most.
_MOST_TILES, _MOST_GROUPS = 2.0, 3.0
# Registers besides scores, powers and results. Sums of instructions have to be in registers.
_OTHER_REGISTERS, _MOST_REGISTERS = 24.0, 240.0
# Products of a scheduler's tensor core in a cycle; instructions of a thread for a score, and for a
# result of a part. With these, tiles of 16 heads of 2048 rows rank as measured on an H200.
_PRODUCTS, _SCORE, _RESULT = 512.0, 7.0, 2.0


class OnlineWarpgroupCostModel(OnlineCostModel):
    """The analytical cost model of such a program, like that of `OnlineCostModel`."""

    def __init__(self, program: Program, first: int, second: int, device: GpuParameters) -> None:
        super().__init__(program, first, second, device, (2, 4))

    def budgets(self) -> Sequence[ProductLimit]:
        """Return the largest allowed products of numbers of a row."""
        rows, _, _ = self.steps
        return [ProductLimit({rows: (0,)}, _MOST_TILES), ProductLimit({rows: (1,)}, _MOST_GROUPS)]

    def shape(self, rows: Rows) -> OnlineShape:
        """Return the shapes of the kernels of rows."""
        return _Shape(self, rows)


class _Shape(OnlineShape):
    """The values of the rows, each a column."""

    def __init__(self, cost_model: OnlineCostModel, rows: Rows) -> None:
        ProductShape.__init__(self, cost_model, rows)
        tiles, groups = self.numbers[0].T
        self.rows, self.row_warps = tiles * HALVES, groups * WARPS
        self.warps, self.tile_rows = self.row_warps, tiles * groups * TILE
        self.tile_columns = np.full(len(rows), float(self.extents[1]))
        self.columns, self.column_warps = self.tile_columns / UNIT, np.ones(len(rows))
        self.take_parts(cost_model)

    @property
    def registers(self) -> Column:
        """Registers of a thread, about."""
        length, columns = self.extents[2], self.tile_columns
        own = self.rows * (length / 4 + length / 8 + columns / 4)
        return np.asarray(_OTHER_REGISTERS + own)

    @property
    def most_registers(self) -> Column:
        """How many registers a thread of a block can have: all are of one multiprocessor."""
        threads = self.warps * ROWS * COLUMNS
        return np.asarray(np.minimum(_MOST_REGISTERS, self.device.registers // threads))

    @property
    def gaps(self) -> bool:
        """Whether rows in shared memory begin in other banks."""
        return False

    def waits(self, parts: Column, in_turn: Column) -> Column:
        """Return how often a multiprocessor waits for a part: warpgroups of a block together."""
        return np.asarray(in_turn * self.warps / WARPS)

    @cached_property
    def own(self) -> Column:
        """Cycles of a warp for a part."""
        length = self.extents[2]
        rows = self.rows * ROWS
        products = rows * length * (self.scores.extents[2] + self.tile_columns) / _PRODUCTS
        plain = rows / (ROWS * COLUMNS) * (length * _SCORE + self.tile_columns * _RESULT)
        return np.asarray(products + plain)
