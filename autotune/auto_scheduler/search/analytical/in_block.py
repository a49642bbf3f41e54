"""The analytical cost model of two products, and what is between them, in one kernel.

See `autotune.auto_scheduler.sketch.in_block`: the second has the tiles, and of each row of a block
all results of the first, and the operand that comes of them, are in shared memory.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property

import numpy as np
import numpy.typing as npt

from autotune.auto_scheduler.search.analytical.gpu_parameters import GpuParameters
from autotune.auto_scheduler.search.analytical.products import Column
from autotune.auto_scheduler.search.analytical.tensor_cores import TensorCoreCostModel, TensorShape
from autotune.auto_scheduler.search.space.program import Program, Rows
from autotune.auto_scheduler.search.space.sampler import ProductLimit
from autotune.auto_scheduler.sketch.in_block import OPERAND_GAP, RESULT_GAP
from autotune.auto_scheduler.sketch.products import ROWS

# Bytes of a result of the first product.
_RESULT_BYTES = 4
# Instructions of a thread for an element between the products: sums of rows, and the operand.
_BETWEEN = 24.0
# Cycles in which a block begins and ends a tile of the first product.
_AROUND = 400.0


class InBlockCostModel(TensorCoreCostModel):
    """The analytical cost model of such a program.

    Args:
        program: whose rows are looked at.
        first: the stage of the first product.
        second: that of the second.
        device: its parameters.
    """

    def __init__(self, program: Program, first: int, second: int, device: GpuParameters) -> None:
        super().__init__(program, second, device)
        self.first = TensorCoreCostModel(program, first, device)

    @property
    def divides_steps(self) -> bool:
        """Whether steps of both are a multiple of those of one instruction."""
        return super().divides_steps and self.first.divides_steps

    def budgets(self) -> Sequence[ProductLimit]:
        """Return the largest allowed products of numbers of a row."""
        return [*super().budgets(), self.first.budgets()[-1]]

    def own_columns(self) -> list[int]:
        """Return the columns of a row on which it depends whether the kernel fits."""
        return sorted({*super().own_columns(), *self.first.own_columns()})

    def shape(self, rows: Rows) -> InBlockShape:
        """Return the shapes of the kernels of rows."""
        return InBlockShape(self, rows)


class InBlockShape(TensorShape):
    """The values of the rows, each a column."""

    def __init__(self, cost_model: InBlockCostModel, rows: Rows) -> None:
        super().__init__(cost_model, rows)
        self.first = cost_model.first.shape(rows)

    @cached_property
    def shared_bytes(self) -> Column:
        """Bytes of shared memory of a block, at most."""
        length, gaps = self.extents[2], (OPERAND_GAP, RESULT_GAP)
        operand, result = (length + (offset - length) % unit for unit, offset in gaps)
        row = operand * self.product.item + result * _RESULT_BYTES
        return np.asarray(
            self.tile_rows * row + self.first.shared_bytes + self.copied_bytes(side=1)
        )

    @cached_property
    def feasible(self) -> npt.NDArray[np.bool_]:
        """Whether a block of such tiles fits the device; tiles of both products are whole."""
        rows, _, length = self.extents
        whole = (length % self.tile_columns == 0) & (rows % self.tile_rows == 0)
        fits = super().feasible & self.first.feasible & whole
        # Each thread has as many rows between the products.
        return np.asarray(fits & (self.tile_rows % (self.warps * ROWS) == 0))

    @cached_property
    def seconds(self) -> Column:
        """An estimate of the time of the kernel."""
        device, first = self.device, self.first
        together = np.minimum(self.resident, np.ceil(self.blocks / device.sms))
        waves = np.ceil(self.blocks / (device.sms * self.resident))
        tiles = self.extents[2] / self.tile_columns
        chunks = np.ceil(first.extents[2] / first.depth)
        before = tiles * (chunks * first.chunk_cycles(together) + _AROUND)
        elements = together * self.tile_rows * self.extents[2]
        between = elements * _BETWEEN / (32 * device.schedulers)
        after = np.ceil(self.extents[2] / self.depth) * self.chunk_cycles(together)
        cycles = waves * (before + between + after + 2 * _AROUND)
        return np.asarray(cycles / device.clock + device.launch_s)
