"""The analytical cost model of programs that multiply on tensor cores by ``wgmma``.

Shared memory and threads are exact, as in `gpu_columns`; times are estimates.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property

import numpy as np
import numpy.typing as npt

from autotune.auto_scheduler.search.analytical.gpu_parameters import GpuParameters
from autotune.auto_scheduler.search.analytical.products import (
    Column,
    ProductCostModel,
    ProductShape,
)
from autotune.auto_scheduler.search.space.annotate_gpu import row_gap
from autotune.auto_scheduler.search.space.program import Program, Rows
from autotune.auto_scheduler.search.space.sampler import ProductLimit
from autotune.auto_scheduler.search.space.steps import tiling_splits
from autotune.auto_scheduler.sketch.warpgroups import PANEL, TILE, UNIT

_THREADS = 128
# Columns of one instruction at most, and sums of a thread.
_MOST_COLUMNS, _MOST_SUMS = 256, 192
# Registers of a thread beside its sums.
_OTHERS = 40
# Bytes of shared memory that a multiprocessor moves in a cycle.
_SHARED_BYTES = 128.0
# Cycles that a chunk takes beside its products where these are waited for, and where those of the
# chunk before are at work; and bytes that a multiprocessor gets of the second-level cache in one.
# Of 0 to 300 and of 40 to 80, estimates with these rank the trials of products of SwiGLU and of
# 2048, and of a convolution of NCHW, best on an H200.
_ARRIVAL, _LATE_ARRIVAL = 600.0, 150.0
_L2_BYTES = 56.0
# Bytes of the elements that instructions read across the reduction; copies transpose others.
_TRANSPOSABLE_BYTES = 2
# Cycles by which one such copy of a warp makes a chunk longer, and one of an element whose place
# has to be found by divisions: products of 2048 and 4096, and a convolution of NCHW, on an H200.
_TRANSPOSED_COPY, _SINGLE_COPY = 4.3, 9.0
# Cycles of an instruction whose left operand threads pass, and of each column; of 256 columns it
# takes as long as another. Products of 4096 by hand on an H200, 109 of 128 columns, 161 of 256.
_PASSED_INSTRUCTION, _PASSED_COLUMN = 46.0, 0.32
# What a chunk takes beside its products where threads load operands of these: 350 cycles in all,
# as products of 2048 and 4096 and a convolution of 128 channels as TF32 did there.
_LOADED = 200.0
# Turns beyond the fewest that are looked at, and the part of the device that has to be busy.
_MOST_TURNS, _BUSY = 8, 0.7
# Buffers with which lowering leaves products at work, see `autotune.lowering.passes.pipeline`.
_LATE = 4


class WarpgroupCostModel(ProductCostModel):
    """The analytical cost model of a program whose warpgroups multiply by ``wgmma``."""

    def __init__(self, program: Program, stage_id: int, device: GpuParameters) -> None:
        super().__init__(program, stage_id, device, (2, 4))
        of_root = tiling_splits(program.state, stage_id)
        # The column of the number of persistent blocks, if blocks are.
        self.turns = program.columns[of_root[5]].start if len(of_root) > 5 else None

    @property
    def divides_steps(self) -> bool:
        """Whether steps, of parts, are a multiple of an instruction's, and of a row in memory."""
        if not self.in_parts:
            return True
        transposed = self.product.item == _TRANSPOSABLE_BYTES and all(self.product.transposed)
        return self.extents[2] % (self.product.depth if transposed else self.product.panel) == 0

    def budgets(self) -> Sequence[ProductLimit]:
        """Return the largest allowed products of numbers of a row."""
        rows, runs, chunk = self.steps
        return [
            ProductLimit({rows: (0,), runs: (0,)}, _MOST_SUMS / 4 / self.together),
            ProductLimit({rows: (1,)}, self.device.block_threads / _THREADS),
            ProductLimit({runs: (0,)}, _MOST_COLUMNS / UNIT),
            ProductLimit({chunk: (0,)}, 8.0),
        ]

    def own_columns(self) -> list[int]:
        """Return the columns of a row on which it depends whether the product's kernel fits."""
        found = super().own_columns()
        return found if self.turns is None else [*found, self.turns]

    def repair(self, rows: Rows) -> Rows:
        """Return rows with as many blocks as share the tiles evenly, and the device holds."""
        if self.turns is None:
            return rows
        rows, tiles = rows.copy(), self.shape(rows).blocks
        most = self.device.sms * np.ceil(rows[:, self.turns] / self.device.sms)
        # The fewest turns that divide the tiles among no more blocks.
        turns = np.ceil(tiles / most)
        for _ in range(_MOST_TURNS):
            turns = np.where(tiles % turns == 0, turns, turns + 1)
        rows[:, self.turns] = np.maximum(tiles // turns, 1)
        return rows

    def shape(self, rows: Rows) -> WarpgroupShape:
        """Return the shapes of the kernels of rows."""
        return WarpgroupShape(self, rows)


class WarpgroupShape(ProductShape):
    """The values of the rows, each a column."""

    def __init__(self, cost_model: WarpgroupCostModel, rows: Rows) -> None:
        super().__init__(cost_model, rows)
        self.tiles, self.groups = self.numbers[0].T
        self.runs, self.chunk = self.numbers[1][:, 0], self.numbers[2][:, 0]
        self.tile_rows = self.tiles * self.groups * TILE
        self.tile_columns = self.runs * UNIT
        self.depth = self.chunk * self.product.depth
        self.threads = self.groups * _THREADS
        self.sums = self.tiles * self.tile_columns / 2 * cost_model.together
        self.grid = (
            self.blocks
            if cost_model.turns is None
            else rows[:, cost_model.turns].astype(np.float64)
        )
        self.in_turn = cost_model.turns is not None

    @property
    def lies_across(self) -> tuple[bool, bool]:
        """Whether rows of panels run across the reduction, of either operand."""
        product = self.product
        return product.transposed if product.item == _TRANSPOSABLE_BYTES else (False, False)

    @cached_property
    def shared_bytes(self) -> Column:
        """Bytes of shared memory of a block."""
        _, gap = row_gap(self.product, True)
        rows = self.tile_rows + (gap if self.product.passed else 0)
        # Of columns that are neighbours in memory the last panel may have nothing at its end.
        panel = PANEL if self.lies_across[1] else 1
        columns = np.ceil(self.tile_columns / panel) * panel
        elements = (rows + columns) * self.depth * self.several
        return np.asarray(elements * self.product.item)

    @cached_property
    def feasible(self) -> npt.NDArray[np.bool_]:
        """Whether a block of such tiles fits the device."""
        device = self.device
        fits = self.fills_a_tile
        if not all(self.lies_across):
            fits &= self.depth % self.product.panel == 0
        fits &= (self.runs >= 4) & (self.tile_columns <= _MOST_COLUMNS)
        fits &= (self.sums <= _MOST_SUMS) & (self.threads <= device.block_threads)
        fits &= self.sums + _OTHERS <= np.minimum(device.registers // self.threads, 255)
        # Copies of several products have the same place, but not before there are rings.
        most = np.maximum(self.several, self.together) / self.several * self.shared_bytes
        fits &= most <= device.shared_bytes - 1024
        fits &= self.tile_columns * self.depth % (self.threads * self.product.vector) == 0
        if self.in_turn:
            # All blocks are there at once, and few multiprocessors are without one.
            fits &= (self.grid < self.blocks) & (self.blocks % self.grid == 0)
            fits &= self.grid <= device.sms * self.resident
            fits &= (self.grid % device.sms == 0) | (self.grid % device.sms > _BUSY * device.sms)
            fits &= self.buffers > 1
        return np.asarray(fits & (self.buffers * self.depth <= self.extents[2]))

    @cached_property
    def resident(self) -> Column:
        """Blocks that a multiprocessor holds at once."""
        device = self.device
        limits = [
            device.warps * 32 // self.threads,
            device.registers // ((self.sums + _OTHERS) * self.threads),
            device.shared_bytes // (self.shared_bytes + 1024),
        ]
        return np.asarray(np.maximum(np.minimum.reduce(limits), 1.0))

    @cached_property
    def seconds(self) -> Column:
        """An estimate of the time of the kernel."""
        device = self.device
        together = np.minimum(self.resident, np.ceil(self.grid / device.sms))
        waves = np.ceil(self.blocks / (device.sms * self.resident))
        chunks = np.ceil(self.extents[2] / self.depth)
        # An instruction of n columns takes n / 2 cycles; operands are read for each.
        instructions = self.tiles * self.groups * self.chunk
        one = self.tile_columns / 2
        if self.product.passed:
            one = np.maximum(one, _PASSED_INSTRUCTION + self.tile_columns * _PASSED_COLUMN)
        own = instructions * one
        moved = (self.tile_rows + self.tile_columns) * self.depth * self.product.item
        read = instructions * (TILE + self.tile_columns) * self.product.depth * self.product.item
        shared = (read + moved) / _SHARED_BYTES
        memory = moved / _L2_BYTES
        # Of four buffers or more, products of the chunk before are at work while threads wait.
        late = self.buffers >= _LATE
        ahead = np.where(late, self.buffers - 2, np.maximum(self.buffers - 1, 0.0))
        alone = np.maximum(own, shared) + np.where(late, _LATE_ARRIVAL, _ARRIVAL)
        alone = alone + (_LOADED if self.product.passed else 0.0)
        come = device.latency + memory
        chain = np.where(ahead > 0, np.maximum(alone, come / np.maximum(ahead, 1.0)), come + alone)
        busy = (np.maximum.reduce([own, shared, memory]) + self.turning) * together
        written = together * self.tile_rows * self.tile_columns / 32
        # What comes first is copied while the results before are stored.
        # Results of products in the same tiles are stored once.
        around = np.maximum(written, come) if self.in_turn else written + 1000.0
        around = around / self.together
        waves = self.blocks / self.grid if self.in_turn else waves
        cycles = waves * (chunks * np.maximum(busy, chain) + around)
        return np.asarray(cycles / device.clock + device.launch_s)

    @property
    def turning(self) -> Column:
        """Cycles that copies of single elements add to a chunk, 32 at a time."""
        cycles = np.zeros(len(self.runs))
        sides = (self.tile_rows, self.tile_columns)
        product = self.product
        turned = (product.transposed[0] and not product.passed, product.transposed[1])
        operands = zip(sides, turned, self.singly, strict=True)
        for side, transposed, singly in operands:
            if singly:
                cycles = cycles + side * self.depth / 32 * _SINGLE_COPY
            elif transposed and product.item != _TRANSPOSABLE_BYTES:
                cycles = cycles + side * self.depth / 32 * _TRANSPOSED_COPY
        return cycles

    @property
    def features(self) -> list[Column]:
        """Columns for a learned model."""
        return [
            self.blocks, self.tiles, self.groups, self.runs, self.sums, self.chunk,
            self.threads, self.buffers, self.shared_bytes, self.resident,
            self.blocks / self.device.sms, self.seconds * 1e9, self.blocks / self.grid,
        ]  # fmt: skip
