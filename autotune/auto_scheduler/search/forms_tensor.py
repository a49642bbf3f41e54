"""Ranks rows of programs that multiply on tensor cores: what fits, and a draft of the time.

Shared memory and threads are exact, as in `forms_gpu`; times are estimates.
"""

from __future__ import annotations

from functools import cached_property

import numpy as np
import numpy.typing as npt

from autotune.auto_scheduler.search.annotate_gpu import PADDING
from autotune.auto_scheduler.search.device_model import GpuModel
from autotune.auto_scheduler.search.forms import Forms
from autotune.auto_scheduler.search.forms_gpu import FEATURES
from autotune.auto_scheduler.search.program import Program, Rows
from autotune.auto_scheduler.search.sampler import Budget, Limits
from autotune.auto_scheduler.search.steps import splits_of
from autotune.auto_scheduler.search.tiles import hint_column
from autotune.auto_scheduler.sketch.tensor_cores import COLUMNS, DEPTH, OWN, ROWS, product_of
from autotune.auto_scheduler.transform_steps.loops import PIPELINE
from autotune.te.relation import extent_of
from autotune.utils.math import product

Column = npt.NDArray[np.float64]
_WARP = ROWS * COLUMNS
_ITEM = 2
# Rows and columns of results of one thread, times one another: more spill.
_MOST_RESULTS = 128
_MOST_VTHREADS = 64
# Cycles of one instruction of a scheduler's tensor core.
_INSTRUCTION = 8.0
_ARRIVAL = 60.0


class TensorForms:
    """Computes the closed forms of one program.

    Args:
        program: whose rows are looked at; its stage ``stage_id`` is a product.
        stage_id: of the product.
        model: the device.
    """

    def __init__(self, program: Program, stage_id: int, model: GpuModel) -> None:
        self.program, self.model = program, model
        state = program.state
        root = state.attach[stage_id][0]
        found = product_of(state.stages[stage_id].op)
        assert found is not None
        self.batch = product([extent_of(axis) or 1 for axis in found.batch])
        sides = (found.row, found.column, found.reduction)
        self.extents = [extent_of(axis) or 1 for axis in sides]
        steps = [*splits_of(state.transform_steps, root)[-2:]]
        steps.append(splits_of(state.transform_steps, stage_id)[-1])
        self.columns = [program.columns[step] for step in steps]
        self.steps = steps
        self.pipeline = hint_column(program, stage_id, PIPELINE)

    def limits(self) -> Limits:
        """Return what rows have to keep, for a `Sampler`."""
        rows, columns, chunk = self.steps
        budgets = [
            Budget({rows: (0,), columns: (0,)}, _MOST_RESULTS / OWN),
            Budget({rows: (1,), columns: (1,)}, self.model.block_threads / _WARP),
            Budget({chunk: (0,)}, 8.0),
        ]
        return Limits(budgets, self._repaired, lambda rows: self.shape(rows).feasible)

    def _repaired(self, rows: Rows) -> Rows:
        return rows

    def __call__(self, rows: Rows) -> Forms:
        """Return the closed forms of rows."""
        shape = self.shape(rows)
        columns = shape.features
        columns += [np.zeros(len(rows))] * (FEATURES - len(columns))
        features = np.log2(np.maximum(np.column_stack(columns), 0.0) + 1.0)
        seconds = np.where(shape.feasible, shape.seconds, np.inf)
        return Forms(shape.feasible, seconds, features.astype(np.float32))

    def shape(self, rows: Rows) -> TensorShape:
        """Return what rows are."""
        return TensorShape(self, rows)


class TensorShape:
    """What the rows are, each value a column."""

    def __init__(self, forms: TensorForms, rows: Rows) -> None:
        self.forms, self.model = forms, forms.model
        pair = [rows[:, at].astype(np.float64) for at in forms.columns]
        self.rows, self.row_warps = pair[0].T
        self.columns, self.column_warps = pair[1].T
        self.chunk = pair[2][:, 0]
        self.warps = self.row_warps * self.column_warps
        self.tile_rows = self.rows * self.row_warps * ROWS
        self.tile_columns = self.columns * self.column_warps * COLUMNS * OWN
        self.depth = self.chunk * DEPTH
        buffers = rows[:, forms.pipeline] if forms.pipeline is not None else rows[:, 0] * 0
        self.buffers = buffers.astype(np.float64)

    @cached_property
    def shared_bytes(self) -> Column:
        """Bytes of shared memory of a block."""
        left = self.tile_rows * (self.depth + PADDING)
        right = self.depth * (self.tile_columns + PADDING)
        several = np.where(self.buffers == 1, 2.0, np.maximum(self.buffers, 1.0))
        return np.asarray((left + right) * _ITEM * several)

    @cached_property
    def feasible(self) -> npt.NDArray[np.bool_]:
        """Whether a block of such tiles fits the device."""
        most = self.model.shared_bytes - 1024
        fits = (self.rows % 2 == 0) & (self.shared_bytes <= most)
        fits &= self.rows * self.columns <= min(_MOST_RESULTS / OWN, _MOST_VTHREADS)
        fits &= self.warps * _WARP <= self.model.block_threads
        return np.asarray(fits & (self.buffers * self.depth <= self.forms.extents[2]))

    @cached_property
    def blocks(self) -> Column:
        """Blocks of the grid."""
        m, n, _ = self.forms.extents
        return np.asarray(self.forms.batch * m / self.tile_rows * n / self.tile_columns)

    @cached_property
    def resident(self) -> Column:
        """Blocks that a multiprocessor holds at once."""
        model = self.model
        registers = 40.0 + self.rows * self.columns * OWN + 2 * self.rows + 4 * self.columns
        limits = [
            model.warps // self.warps,
            model.registers // (np.minimum(registers, 255.0) * self.warps * _WARP),
            model.shared_bytes // (self.shared_bytes + 1024),
        ]
        return np.asarray(np.maximum(np.minimum.reduce(limits), 1.0))

    @cached_property
    def seconds(self) -> Column:
        """A draft of the time of the kernel."""
        model = self.model
        together = np.minimum(self.resident, np.ceil(self.blocks / model.sms))
        waves = np.ceil(self.blocks / (model.sms * self.resident))
        chunks = np.ceil(self.forms.extents[2] / self.depth)
        products = self.rows / 2 * self.columns * OWN / 2 * self.chunk
        reads = (2 * self.rows + 16 * self.columns) * self.chunk
        own = np.ceil(self.warps / model.schedulers) * products * _INSTRUCTION
        issued = together * own
        answered = together * self.warps * reads
        moved = (self.tile_rows + self.tile_columns) * self.depth * _ITEM
        memory = together * moved / model.l2_bytes_per_cycle
        copies = moved / 16 / (self.warps * _WARP)
        alone = np.maximum(own, products * _INSTRUCTION + reads) + 8.0 * copies
        ahead = np.where(self.buffers == 1, 1.0, np.maximum(self.buffers - 1, 0.0))
        late = np.maximum(alone + _ARRIVAL, (model.latency + alone) / np.maximum(ahead, 1.0))
        chain = np.where(ahead > 0, late, model.latency + alone)
        chunk = np.maximum.reduce([issued, answered, memory, chain])
        written = together * self.tile_rows * self.tile_columns / 32
        cycles = waves * (chunks * chunk + written + 1000.0)
        return np.asarray(cycles / model.clock + model.launch_s)

    @property
    def features(self) -> list[Column]:
        """Columns for a learned model."""
        return [
            self.blocks, self.rows, self.row_warps, self.columns, self.column_warps,
            self.chunk, self.warps, self.buffers, self.shared_bytes, self.resident,
            self.blocks / self.model.sms, self.seconds * 1e9,
        ]  # fmt: skip


def multiplied_stage(program: Program) -> int | None:
    """Return the stage that a program multiplies on tensor cores; None if it does not."""
    for stage_id, stage in enumerate(program.state.stages):
        if stage.attrs.tensor_core and stage_id in program.state.attach:
            return stage_id
    return None
