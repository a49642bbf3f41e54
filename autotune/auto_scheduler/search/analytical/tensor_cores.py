"""The analytical cost model of programs that multiply on tensor cores by ``mma.sync``.

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
from autotune.auto_scheduler.sketch.products import COLUMNS, ROWS
from autotune.auto_scheduler.sketch.tensor_cores import OWN
from autotune.lowering import RUN_GAP

_WARP = ROWS * COLUMNS
# Rows and columns of results of one thread, times one another: more spill.
_MOST_RESULTS = 128
_MOST_VTHREADS = 64
# Cycles of one instruction of a scheduler's tensor core, with what reads its operands: products of
# 1024 to 4096 took 10 to 16 on an H200, TF32 as long for half the steps.
_INSTRUCTION = 13.0
# Cycles of a copy, and of one whose place in an image has to be found by divisions.
_COPY, _GATHERED = 8.0, 24.0
# The same of one element, where its neighbours are not contiguous.
_SINGLE = 48.0
_ARRIVAL = 60.0
# Cycles in which the columns of a thread are read for an instruction's steps, two at once, and one
# by one where neighbours in memory are steps: of 16-bit floats four reads of 16 bytes, of four
# cycles each, and eight of two steps, of one cycle each where no banks conflict.
_ACROSS_READS, _ALONG_READS = 16, 8


class TensorCoreCostModel(ProductCostModel):
    """The analytical cost model of a program whose warps multiply by ``mma.sync``."""

    def __init__(self, program: Program, stage_id: int, device: GpuParameters) -> None:
        super().__init__(program, stage_id, device, (-2, -1))

    def budgets(self) -> Sequence[ProductLimit]:
        """Return the largest allowed products of numbers of a row."""
        rows, columns, chunk = self.steps
        return [
            ProductLimit({rows: (0,), columns: (0,)}, _MOST_RESULTS / OWN / self.together),
            ProductLimit({rows: (1,), columns: (1,)}, self.device.block_threads / _WARP),
            ProductLimit({chunk: (0,)}, 8.0),
        ]

    def shape(self, rows: Rows) -> TensorShape:
        """Return the shapes of the kernels of rows."""
        return TensorShape(self, rows)


class TensorShape(ProductShape):
    """The values of the rows, each a column."""

    def __init__(self, cost_model: TensorCoreCostModel, rows: Rows) -> None:
        super().__init__(cost_model, rows)
        self.rows, self.row_warps = self.numbers[0].T
        self.columns, self.column_warps = self.numbers[1].T
        self.chunk = self.numbers[2][:, 0]
        self.warps = self.row_warps * self.column_warps
        self.tile_rows = self.rows * self.row_warps * ROWS
        self.tile_columns = self.columns * self.column_warps * COLUMNS * OWN
        self.depth = self.chunk * self.product.depth

    @property
    def gap(self) -> int:
        """Elements after a run of columns that are read one by one; 0 where others are."""
        return 0 if self.product.transposed[1] else RUN_GAP

    @cached_property
    def shared_bytes(self) -> Column:
        """Bytes of shared memory of a block."""
        return np.asarray((self.copied_bytes(0) + self.copied_bytes(1)) * self.together)

    def copied_bytes(self, side: int) -> Column:
        """Return the bytes of shared memory for rows (0), or for columns (1), of a chunk."""
        across = (self.tile_rows, self.tile_columns)[side]
        transposed = self.product.transposed[side]
        rows, width = (self.depth, across) if transposed else (across, self.depth)
        unit, offset = row_gap(self.product, transposed)
        elements = rows * (width + (offset - width) % unit)
        if side == 1:
            elements = elements + self.tile_columns / OWN * self.gap
        return np.asarray(elements * self.product.item * self.several)

    @cached_property
    def feasible(self) -> npt.NDArray[np.bool_]:
        """Whether a block of such tiles fits the device."""
        most = self.device.shared_bytes - 1024
        fits = self.fills_a_tile & (self.rows % 2 == 0) & (self.shared_bytes <= most)
        results = self.rows * self.columns * self.together
        fits &= results <= min(_MOST_RESULTS / OWN, _MOST_VTHREADS)
        fits &= self.warps * _WARP <= self.device.block_threads
        return np.asarray(fits & (self.buffers * self.depth <= self.extents[2]))

    @cached_property
    def resident(self) -> Column:
        """Blocks that a multiprocessor holds at once."""
        device = self.device
        results = self.rows * self.columns * OWN * self.together
        registers = 40.0 + results + 2 * self.rows + 4 * self.columns
        limits = [
            device.warps // self.warps,
            device.registers // (np.minimum(registers, 255.0) * self.warps * _WARP),
            device.shared_bytes // (self.shared_bytes + 1024),
        ]
        return np.asarray(np.maximum(np.minimum.reduce(limits), 1.0))

    @cached_property
    def seconds(self) -> Column:
        """An estimate of the time of the kernel."""
        device = self.device
        together = np.minimum(self.resident, np.ceil(self.blocks / device.sms))
        waves = np.ceil(self.blocks / (device.sms * self.resident))
        chunks = np.ceil(self.extents[2] / self.depth)
        written = together * self.tile_rows * self.tile_columns / 32
        cycles = waves * (chunks * self.chunk_cycles(together) + written + 1000.0)
        return np.asarray(cycles / device.clock + device.launch_s)

    def chunk_cycles(self, together: Column) -> Column:
        """Return the cycles of a chunk, of so many blocks of a multiprocessor."""
        device = self.device
        products = self.rows / 2 * self.columns * OWN / 2 * self.chunk
        of_columns = _ALONG_READS if self.gap else _ACROSS_READS
        reads = (2 * self.rows + of_columns * self.columns) * self.chunk
        several = np.ceil(self.warps / device.schedulers)
        own = several * products * _INSTRUCTION
        issued = together * (own + several * self.copying)
        answered = together * self.warps * reads
        moved = (self.tile_rows + self.tile_columns) * self.depth * self.product.item
        memory = together * moved / device.l2_bytes_per_cycle
        alone = np.maximum(own, products * _INSTRUCTION + reads) + self.copying
        ahead = np.where(self.buffers == 1, 1.0, np.maximum(self.buffers - 1, 0.0))
        late = np.maximum(alone + _ARRIVAL, (device.latency + alone) / np.maximum(ahead, 1.0))
        chain = np.where(ahead > 0, late, device.latency + alone)
        return np.asarray(np.maximum.reduce([issued, answered, memory, chain]))

    @property
    def copying(self) -> Column:
        """Cycles in which a warp begins its copies of a chunk."""
        places = [_GATHERED if self.product.gathers else _COPY, _COPY]
        for side, singly in enumerate(self.singly):
            places[side] = _SINGLE * self.product.vector if singly else places[side]
        elements = (self.tile_rows * places[0] + self.tile_columns * places[1]) * self.depth
        return np.asarray(elements / self.product.vector / (self.warps * _WARP))

    @property
    def features(self) -> list[Column]:
        """Columns for a learned model."""
        return [
            self.blocks, self.rows, self.row_warps, self.columns, self.column_warps,
            self.chunk, self.warps, self.buffers, self.shared_bytes, self.resident,
            self.blocks / self.device.sms, self.seconds * 1e9,
        ]  # fmt: skip


def multiplied_stages(program: Program) -> list[int]:
    """Return the stages that a program multiplies on tensor cores."""
    state = program.state
    return [
        i for i, each in enumerate(state.stages) if each.attrs.tensor_core and i in state.attach
    ]
