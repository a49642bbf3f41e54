"""Ranks rows of programs that multiply by ``wgmma``: what fits, and a draft of the time.

Shared memory and threads are exact, as in `forms_gpu`; times are estimates.
"""

from __future__ import annotations

from functools import cached_property

import numpy as np
import numpy.typing as npt

from autotune.auto_scheduler.search.device_model import GpuModel
from autotune.auto_scheduler.search.forms import Forms
from autotune.auto_scheduler.search.forms_gpu import FEATURES
from autotune.auto_scheduler.search.program import Program, Rows
from autotune.auto_scheduler.search.sampler import Budget, Limits
from autotune.auto_scheduler.search.steps import splits_of
from autotune.auto_scheduler.search.tiles import hint_column
from autotune.auto_scheduler.sketch.tensor_cores import DEPTH, product_of
from autotune.auto_scheduler.sketch.warpgroups import PANEL, TILE, UNIT
from autotune.auto_scheduler.transform_steps.loops import PIPELINE
from autotune.te.relation import extent_of
from autotune.utils.math import product

Column = npt.NDArray[np.float64]
_ITEM, _THREADS = 2, 128
# Elements of a vector that is copied at once.
_VECTOR = 8
# Columns of one instruction at most, and sums of a thread.
_MOST_COLUMNS, _MOST_SUMS = 256, 192
# Registers of a thread beside its sums.
_OTHERS = 40
# Bytes of shared memory that a multiprocessor moves in a cycle.
_SHARED_BYTES = 128.0
# Cycles that a chunk takes beside its products where these are waited for.
_ARRIVAL = 600.0
# Buffers with which lowering leaves products at work, see `autotune.lowering.pipeline`.
_LATE = 4


class WarpgroupForms:
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
        self.turned = found.turned
        self.batch = product([extent_of(axis) or 1 for axis in found.batch])
        sides = (found.row, found.column, found.reduction)
        self.extents = [extent_of(axis) or 1 for axis in sides]
        of_root = splits_of(state.transform_steps, root)
        chunk = splits_of(state.transform_steps, stage_id)[-1]
        self.steps = [of_root[-3], of_root[-1], chunk]
        self.columns = [program.columns[step] for step in self.steps]
        self.pipeline = hint_column(program, stage_id, PIPELINE)

    def limits(self) -> Limits:
        """Return what rows have to keep, for a `Sampler`."""
        rows, runs, chunk = self.steps
        budgets = [
            Budget({rows: (0,), runs: (0,)}, _MOST_SUMS / 4),
            Budget({rows: (1,)}, self.model.block_threads / _THREADS),
            Budget({runs: (0,)}, _MOST_COLUMNS / UNIT),
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

    def shape(self, rows: Rows) -> WarpgroupShape:
        """Return what rows are."""
        return WarpgroupShape(self, rows)


class WarpgroupShape:
    """What the rows are, each value a column."""

    def __init__(self, forms: WarpgroupForms, rows: Rows) -> None:
        self.forms, self.model = forms, forms.model
        one, two, three = (rows[:, at].astype(np.float64) for at in forms.columns)
        self.tiles, self.groups = one.T
        self.runs, self.chunk = two[:, 0], three[:, 0]
        self.tile_rows = self.tiles * self.groups * TILE
        self.tile_columns = self.runs * UNIT
        self.depth = self.chunk * DEPTH
        self.threads = self.groups * _THREADS
        self.sums = self.tiles * self.tile_columns / 2
        buffers = rows[:, forms.pipeline] if forms.pipeline is not None else rows[:, 0] * 0
        self.buffers = buffers.astype(np.float64)

    @cached_property
    def shared_bytes(self) -> Column:
        """Bytes of shared memory of a block."""
        elements = (self.tile_rows + self.tile_columns) * self.depth * self.several
        return np.asarray(elements * _ITEM)

    @property
    def several(self) -> Column:
        """How many times operands are there: of copies through registers twice."""
        return np.where(self.buffers == 1, 2.0, np.maximum(self.buffers, 1.0))

    @cached_property
    def feasible(self) -> npt.NDArray[np.bool_]:
        """Whether a block of such tiles fits the device."""
        model = self.model
        fits = np.full(len(self.runs), True)
        if not all(self.forms.turned):
            fits &= self.depth % PANEL == 0
        if self.forms.turned[1]:
            fits &= self.tile_columns % PANEL == 0
        fits &= (self.runs >= 4) & (self.tile_columns <= _MOST_COLUMNS)
        fits &= (self.sums <= _MOST_SUMS) & (self.threads <= model.block_threads)
        fits &= self.sums + _OTHERS <= np.minimum(model.registers // self.threads, 255)
        fits &= self.shared_bytes <= model.shared_bytes - 1024
        fits &= self.tile_columns * self.depth % (self.threads * _VECTOR) == 0
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
        limits = [
            model.warps * 32 // self.threads,
            model.registers // ((self.sums + _OTHERS) * self.threads),
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
        # An instruction of n columns takes n / 2 cycles; operands are read for each.
        instructions = self.tiles * self.groups * self.chunk
        own = instructions * self.tile_columns / 2
        moved = (self.tile_rows + self.tile_columns) * self.depth * _ITEM
        read = instructions * (TILE + self.tile_columns) * DEPTH * _ITEM
        shared = (read + moved) / _SHARED_BYTES
        memory = moved / model.l2_bytes_per_cycle
        # Of four buffers or more, products of the chunk before are at work while threads wait.
        late = self.buffers >= _LATE
        ahead = np.where(late, self.buffers - 2, np.maximum(self.buffers - 1, 0.0))
        alone = np.maximum(own, shared) + np.where(late, 0.0, _ARRIVAL)
        come = model.latency + memory
        chain = np.where(ahead > 0, np.maximum(alone, come / np.maximum(ahead, 1.0)), come + alone)
        busy = np.maximum.reduce([own, shared, memory]) * together
        written = together * self.tile_rows * self.tile_columns / 32
        cycles = waves * (chunks * np.maximum(busy, chain) + written + 1000.0)
        return np.asarray(cycles / model.clock + model.launch_s)

    @property
    def features(self) -> list[Column]:
        """Columns for a learned model."""
        return [
            self.blocks, self.tiles, self.groups, self.runs, self.sums, self.chunk,
            self.threads, self.buffers, self.shared_bytes, self.resident,
            self.blocks / self.model.sms, self.seconds * 1e9,
        ]  # fmt: skip
