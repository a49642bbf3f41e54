"""Ranks rows of programs for GPUs: what is possible, a draft of the time, features for a model."""

from __future__ import annotations

from functools import cached_property

import numpy as np
import numpy.typing as npt

from autotune.auto_scheduler.loops import ComputeAtKind
from autotune.auto_scheduler.search.annotate_gpu import ROW_UNIT, UNROLL_LIMITS
from autotune.auto_scheduler.search.columns_gpu import (
    Levels,
    Shape,
    Traffic,
    footprint,
    multiplied,
    strides_of,
    traffic_of,
    unrolled_steps,
)
from autotune.auto_scheduler.search.device_model import GpuModel
from autotune.auto_scheduler.search.forms import Forms
from autotune.auto_scheduler.search.program import ChoiceSlot, Program, Rows
from autotune.auto_scheduler.search.same_code import (
    PlainSum,
    plain_sums,
    with_fewest_loops,
    with_lowest_limit,
    with_lowest_plain_limits,
)
from autotune.auto_scheduler.search.sampler import Budget, Limits
from autotune.auto_scheduler.search.tiles import Column, Tiled, TiledAxis, TileInput, tiled_stages
from autotune.ir.dtype import bits_of
from autotune.utils.math import product

Mask = npt.NDArray[np.bool_]
# Registers that a thread needs for addresses and counters.
_BASE_REGISTERS = 24
_MOST_REGISTERS = 255
# Most partial results of one thread: more spill.
_MOST_ACCUMULATORS = 128
# Most steps of a reduction that one filling of shared memory is for.
_MOST_DEPTH = 256
# Instructions for copying one element or vector: address, guard, load, store.
_COPY = 8.0
# The same where each copy has to find its place by divisions.
_COPY_APART = 20.0
# Statements that may be written out before instructions come too slowly.
_MOST_CODE = 1024.0
# Most iterations of an innermost loop into which two become one.
_MOST_INNERMOST = 64
# Inner steps of a reduction that the compiler writes out by itself.
_FEW_STEPS = 8
# Bytes at whose multiples the buffers of a pipeline begin.
_SLOT = 16.0
# Cycles until all threads know that a chunk has come that was asked for long ago.
_ARRIVAL = 60.0
# Part of the shorter of two times, calculating and reading shared memory, that is not hidden.
_APART = 0.5
# Cycles that a step of a reduction waits where it is not unrolled.
_LOOP_LATENCY = 25.0


class GpuForms:
    """Computes the closed forms of one program.

    Args:
        program: whose rows are looked at.
        model: the device.
    """

    def __init__(self, program: Program, model: GpuModel) -> None:
        self.program = program
        self.model = model
        self.tiled: list[Tiled] = tiled_stages(program)

    @property
    def tiles(self) -> bool:
        """Whether a stage is tiled."""
        return bool(self.tiled)

    @cached_property
    def extra_seconds(self) -> float:
        """What the kernels around the tiled ones take: launches, and tensors between kernels."""
        return sum(kernels_seconds(self.program, self.model))

    def __call__(self, rows: Rows) -> Forms:
        """Return the closed forms of rows."""
        feasible = np.ones(len(rows), bool)
        seconds = np.full(len(rows), self.extra_seconds)
        slowest = np.zeros((len(rows), _STAGE))
        longest = np.full(len(rows), -1.0)
        for tiled in self.tiled:
            stage = StageForms(tiled, rows, self.model)
            feasible &= stage.feasible
            seconds = seconds + stage.seconds
            slower = stage.seconds > longest
            slowest = np.where(slower[:, None], stage.features, slowest)
            longest = np.maximum(longest, stage.seconds)
        ones = np.ones(len(rows))
        choices = [rows[:, at] for at in self._choices[:3]]
        whole = [seconds * 1e9, len(self.tiled) * ones, self.extra_seconds * 1e9 * ones, *choices]
        whole += [0 * ones] * (FEATURES - _STAGE - len(whole))
        features = np.log2(np.maximum(np.column_stack([slowest, *whole]), 0.0) + 1.0)
        return Forms(feasible, np.where(feasible, seconds, np.inf), features.astype(np.float32))

    def repair(self, rows: Rows) -> Rows:
        """Return rows whose copies are no wider than what they copy allows, nor made too early.

        Of rows that are the same kernel one is kept (see `same_code`).
        """
        rows = rows.copy()
        for tiled in self.tiled:
            levels = Levels(tiled, rows)
            for each in tiled.inputs:
                if each.vector is None or not each.shape:
                    continue
                extents = footprint(each, levels, slice(None), slice(None))
                inner = extents[-1].astype(np.int64)
                most = np.gcd(np.gcd(inner, each.shape[-1]), max(16 // each.item, 1))
                rows[:, each.vector] = np.minimum(rows[:, each.vector], most)
                if each.row is not None:
                    _without_gaps(rows, each, extents)
            if tiled.pipeline is not None:
                chunks = Shape(tiled, levels).chunks.astype(np.int64)
                most = np.where(chunks > 1, chunks, 0)
                rows[:, tiled.pipeline] = np.minimum(rows[:, tiled.pipeline], most)
            rows = with_fewest_loops(tiled, rows, _MOST_INNERMOST)
            rows = with_lowest_limit(tiled, rows, UNROLL_LIMITS)
        return with_lowest_plain_limits(self._plain_sums, rows, UNROLL_LIMITS)

    @cached_property
    def _plain_sums(self) -> list[PlainSum]:
        return plain_sums(self.program, self.tiled)

    def feasible(self, rows: Rows) -> Mask:
        """Return which rows keep the limits of the device."""
        fits = np.ones(len(rows), bool)
        for tiled in self.tiled:
            fits &= StageForms(tiled, rows, self.model).feasible
        return fits

    def limits(self) -> Limits:
        """Return what rows have to keep, for a `Sampler`."""
        budgets = []
        for tiled in self.tiled:
            data = [self._step_of(axis) for axis in tiled.data]
            chunks = [self._step_of(axis) for axis in tiled.reductions]
            for levels, most in (
                ((1,), self.model.block_threads),
                ((0,), self.model.block_vthreads),
                ((0, 2, 3), _MOST_ACCUMULATORS),
            ):
                places = {step: levels for step in data if step is not None}
                budgets.append(Budget(places, float(most)))
            deep = {step: (0, 1) for step in chunks if step is not None}
            budgets.append(Budget(deep, float(_MOST_DEPTH)))
        return Limits(budgets, self.repair, self.feasible)

    def _step_of(self, axis: TiledAxis) -> int | None:
        columns = self.program.columns
        return next((step for step, at in columns.items() if at == axis.columns), None)

    @cached_property
    def _choices(self) -> list[int]:
        """Columns of choices that no tiled stage shows."""
        shown = {column for each in self.tiled for column in (each.unroll, each.pipeline)}
        shown |= {one.vector for each in self.tiled for one in each.inputs}
        starts = [
            self.program.columns[slot.step].start
            for slot in self.program.slots
            if isinstance(slot, ChoiceSlot)
        ]
        return [start for start in starts if start not in shown]


class StageForms:
    """The closed forms of one tiled stage."""

    def __init__(self, tiled: Tiled, rows: Rows, model: GpuModel) -> None:
        self.tiled, self.rows, self.model = tiled, rows, model
        self.levels = Levels(tiled, rows)
        self.shape = Shape(tiled, self.levels)

    @cached_property
    def traffic(self) -> list[Traffic]:
        """What each input costs."""
        known = self.rows, self.levels, self.shape, self.written
        pairs = zip(self.tiled.inputs, self.extents, strict=True)
        return [traffic_of(each, *known, extents) for each, extents in pairs]

    @cached_property
    def copied(self) -> list[tuple[TileInput, Traffic]]:
        """The inputs in shared memory with their costs."""
        pairs = zip(self.tiled.inputs, self.traffic, strict=True)
        return [(each, traffic) for each, traffic in pairs if each.in_shared]

    @cached_property
    def extents(self) -> list[list[Column]]:
        """The extents of what a block reads of each input for one chunk."""
        every = slice(None)
        return [footprint(each, self.levels, every, every) for each in self.tiled.inputs]

    @cached_property
    def shared_extents(self) -> list[tuple[TileInput, list[Column]]]:
        """The inputs in shared memory with the extents of what is there of them."""
        pairs = zip(self.tiled.inputs, self.extents, strict=True)
        return [(each, extents) for each, extents in pairs if each.in_shared]

    @cached_property
    def shared_bytes(self) -> Column:
        """Bytes of shared memory of a block."""
        sizes = []
        for each, extents in self.shared_extents:
            size = each.item * strides_of(each, self.rows, extents)[-1]
            aligned = np.ceil(size / _SLOT) * _SLOT
            several = np.where(self.buffers == 1, 2.0, self.buffers)
            sizes.append(np.where(self.buffers > 0, several * aligned, size))
        return self._total(sizes)

    @cached_property
    def buffers(self) -> Column:
        """Buffers of the copies in shared memory, as `PragmaStep.pipeline` counts them."""
        if self.tiled.pipeline is None:
            return np.zeros(len(self.rows))
        return self.rows[:, self.tiled.pipeline].astype(np.float64)

    @cached_property
    def ahead(self) -> Column:
        """Chunks that are on their way while one is in use."""
        return np.where(self.buffers == 1, 1.0, np.maximum(self.buffers - 1, 0.0))

    def _total(self, columns: list[Column]) -> Column:
        result = np.zeros(len(self.rows))
        for each in columns:
            result = result + each
        return result

    @cached_property
    def feasible(self) -> Mask:
        """Whether a block of such tiles fits the device."""
        shape, model = self.shape, self.model
        fits = (shape.threads <= model.block_threads) & (shape.vthreads <= model.block_vthreads)
        fits &= self.shared_bytes <= model.block_shared_bytes
        fits &= shape.accumulators <= _MOST_ACCUMULATORS
        total = product([axis.extent for axis in (*self.tiled.data, *self.tiled.reductions)])
        if total > 64:
            fits &= shape.threads >= min(32, product([a.extent for a in self.tiled.data]))
        for each, extents in self.shared_extents:
            if each.vector is None:
                continue
            width = self.rows[:, each.vector]
            inner = extents[-1]
            fits &= (inner % width == 0) & (each.shape[-1] % width == 0)
            fits &= width * each.item <= 16
        return np.asarray(fits)

    @cached_property
    def registers(self) -> Column:
        """Registers of a thread, estimated."""
        loads = self._total([each.loads for each in self.traffic])
        held = np.where(
            self.buffers == 1, self._total([each.held for _, each in self.copied]), 0.0
        )
        return np.minimum(
            _BASE_REGISTERS + self.shape.accumulators + loads + held, _MOST_REGISTERS
        )

    @cached_property
    def resident(self) -> Column:
        """Blocks that a multiprocessor holds at once."""
        model, shape = self.model, self.shape
        warps = np.ceil(shape.threads / 32)
        limits = [
            np.full(len(self.rows), float(model.blocks)),
            model.warps // warps,
            model.registers // (self.registers * warps * 32),
            model.shared_bytes // (self.shared_bytes + 1024),
        ]
        return np.asarray(np.maximum(np.minimum.reduce(limits), 1.0))

    @cached_property
    def unrolled(self) -> Column:
        """Whether the inner loops are written out, 0 or 1."""
        if self.tiled.unroll is None:
            return np.zeros(len(self.rows))
        limit = self.rows[:, self.tiled.unroll]
        return (self.shape.inner <= limit).astype(np.float64)

    @cached_property
    def written(self) -> Column:
        """Whether the inner loops are written out, by the compiler where no hint says so."""
        steps = self.levels.product(self.levels.reductions, slice(1, None))
        return np.maximum(self.unrolled, (steps <= _FEW_STEPS).astype(np.float64))

    @cached_property
    def code(self) -> Column:
        """Statements that are written out."""
        limit = np.zeros(len(self.rows))
        if self.tiled.unroll is not None:
            limit = self.rows[:, self.tiled.unroll].astype(np.float64)
        data, chunks = self.levels.data[::-1], self.levels.reductions[::-1]
        whole = [
            np.ceil(axis.extent / multiplied(lengths))[None, :]
            for axis, lengths in zip(self.tiled.reductions, self.levels.reductions, strict=True)
        ]
        loops = [(each, slice(3, None)) for each in data]
        loops += [(each, slice(1, None)) for each in chunks]
        loops += [(each, slice(2, 3)) for each in data]
        loops += [(each, slice(0, 1)) for each in chunks]
        loops += [(each, slice(None)) for each in whole[::-1]]
        return unrolled_steps(self.levels, loops, self.shape.vthreads, limit)

    @cached_property
    def waves(self) -> Column:
        """Rounds in which the blocks are carried out."""
        return np.ceil(self.shape.blocks / (self.model.sms * self.resident))

    @cached_property
    def seconds(self) -> Column:
        """A draft of the time of the kernel."""
        shape, model = self.shape, self.model
        warps = np.ceil(shape.threads / 32)
        reads = self._total([each.reads for each in self.traffic])
        fused = shape.accumulators * shape.depth
        loop = np.where(self.unrolled > 0, 0.3, 2.0) * shape.depth
        costs = [np.where(each.regular > 0, _COPY, _COPY_APART) for _, each in self.copied]
        copying = self._total(
            [cost * each.copies for cost, (_, each) in zip(costs, self.copied, strict=True)]
        )
        issued = fused + reads * shape.depth + loop + copying + 30.0
        together = np.minimum(self.resident, np.ceil(shape.blocks / model.sms))
        throughput = together * warps * issued / model.schedulers
        answered = self._total([each.wavefronts for each in self.traffic]) * shape.depth
        waiting = np.where(self.unrolled > 0, 4.0, _LOOP_LATENCY)
        serial = shape.depth * (np.maximum(shape.accumulators, 4.0) + reads + waiting)
        alone = np.maximum(serial, warps * issued / model.schedulers) + copying
        late = np.maximum(alone + _ARRIVAL, (model.latency + alone) / np.maximum(self.ahead, 1.0))
        chain = np.where(self.ahead > 0, late, model.latency + alone)
        moved = self._total([each.sectors * 32.0 for _, each in self.copied])
        memory = together * moved / model.l2_bytes_per_cycle
        shared = together * warps * answered
        busy = np.maximum(throughput, shared) + _APART * np.minimum(throughput, shared)
        chunk = np.maximum(np.maximum(busy, memory), chain)
        written = shape.accumulators * warps * together * (32.0 / np.minimum(shape.run, 32.0))
        bloat = np.maximum(self.code / _MOST_CODE, 1.0) ** 1.5
        cycles = self.waves * (shape.chunks * chunk * bloat + written * 2.0 + 1000.0)
        return np.asarray(cycles / model.clock)

    @cached_property
    def features(self) -> Column:
        """Columns for a learned model, as many for each stage; see `FEATURES`."""
        shape, sms = self.shape, self.model.sms
        none = np.zeros(len(self.rows))
        unroll = none if self.tiled.unroll is None else self.rows[:, self.tiled.unroll]
        columns = [
            shape.blocks, shape.vthreads, shape.threads, shape.accumulators, shape.chunks,
            shape.depth, shape.inner, shape.run, self.shared_bytes, self.registers,
            self.resident, self.waves, self.unrolled, self.code, unroll, shape.threads % 32,
            shape.blocks / sms, shape.blocks % sms, shape.threads * self.resident,
            self.seconds * 1e9, self.buffers,
        ]  # fmt: skip
        for each, traffic in [*zip(self.tiled.inputs, self.traffic, strict=True)][:3]:
            width = none if each.vector is None else self.rows[:, each.vector]
            columns += [traffic.elements, traffic.copies, traffic.sectors, traffic.reads]
            columns += [traffic.conflict, width, traffic.width, traffic.regular]
        columns += [none] * (8 * max(0, 3 - len(self.traffic)))
        columns += _lengths(self.levels.reductions, 4, 2, none)
        columns += _lengths(self.levels.data[::-1], 6, 4, none)
        matrix = np.array(columns, np.float64).T
        return np.where(np.isfinite(matrix), matrix, 0.0)


def kernels_seconds(program: Program, model: GpuModel) -> list[float]:
    """Return for each kernel what it takes to launch it, and to pass its result on."""
    found = []
    for stage in program.state.stages:
        if not stage.is_compute or stage.compute_at is not ComputeAtKind.ROOT:
            continue
        extents = [n for n in stage.op.outputs[0].shape if isinstance(n, int)]
        moved = product(extents) * bits_of(stage.op.outputs[0].dtype) / 8
        found.append(model.launch_s + 2 * moved / model.memory_bytes_per_s)
    return found


def _without_gaps(rows: Rows, source: TileInput, extents: list[Column]) -> None:
    """Leave rows of a tile as long as they are where gaps between them bring nothing."""
    assert source.row is not None
    plain = rows.copy()
    plain[:, source.row] = 0
    length = strides_of(source, plain, extents)[source.row_dimension]
    useful = (length % ROW_UNIT == 0) & (extents[source.row_dimension] > 1)
    rows[:, source.row] = np.where(useful, rows[:, source.row], 0)


def _lengths(axes: list[Column], most: int, levels: int, none: Column) -> list[Column]:
    """Return the lengths of some axes, level by level; missing axes have zeros."""
    columns = [each[i] if i < len(each) else none for each in axes[:most] for i in range(levels)]
    return columns + [none] * (most * levels - len(columns))


# Columns of one tiled stage, and of a program.
_STAGE = 21 + 3 * 8 + 4 * 2 + 6 * 4
FEATURES = _STAGE + 6
