"""The analytical cost model of one tiled stage on a GPU: feasibility and estimated time."""

from __future__ import annotations

from functools import cached_property

import numpy as np
import numpy.typing as npt

from autotune.auto_scheduler.search.analytical.gpu_columns import (
    Levels,
    Shape,
    Traffic,
    footprint,
    lengths_of,
    loads_of,
    multiplied,
    product_of,
    strides_of,
    traffic_of,
    unrolled_steps,
)
from autotune.auto_scheduler.search.analytical.gpu_parameters import GpuParameters
from autotune.auto_scheduler.search.analytical.tiles import Column, Tiled, TileInput, terms
from autotune.auto_scheduler.search.space.annotate_gpu import MIN_BLOCKS
from autotune.auto_scheduler.search.space.program import Rows

Mask = npt.NDArray[np.bool_]
# Registers that a thread needs for addresses and counters.
_BASE_REGISTERS = 24
_MOST_REGISTERS = 255
# Multiply-adds from which on kernels keep multiprocessors busy: others wait for latencies, which
# estimates know less of.
LARGE = 2**30
# Most partial results of one thread: more spill.
MOST_ACCUMULATORS = 128
# Instructions for copying one element or vector: address, guard, load, store.
_COPY = 8.0
# The same where each copy has to find its place by divisions.
_COPY_APART = 20.0
# Statements that may be written out before instructions come too slowly.
_MOST_CODE = 1024.0
# Inner steps of a reduction that the compiler writes out by itself.
_FEW_STEPS = 8
# Bytes at whose multiples the buffers of a pipeline begin.
_SLOT = 16.0
# Cycles of the barrier after a K tile whose copies were issued long ago.
_ARRIVAL = 60.0
# Part of the shorter of two times, calculating and reading shared memory, that is not hidden.
_APART = 0.5
# Of threads with more partial results few fit, and kernels take so many times as long; so do those
# whose threads wait for what they copy: with one buffer, with two through registers, or without.
_MANY_ACCUMULATORS, _FEW_WARPS = 64, 1.1
_WAITS = (1.15, 1.05, 1.0)
# Cycles that a step of a reduction waits where it is not unrolled.
_LOOP_LATENCY = 25.0


def is_large(tiled: Tiled) -> Mask:
    """Return whether a tiled stage has so many multiply-adds that multiprocessors are busy."""
    return np.asarray(terms((*tiled.data, *tiled.reductions)) >= LARGE)


class StageEstimate:
    """The estimates of one tiled stage, for many rows at once."""

    def __init__(self, tiled: Tiled, rows: Rows, device: GpuParameters) -> None:
        self.tiled, self.rows, self.device = tiled, rows, device
        self.levels = Levels(tiled, rows)
        self.shape = Shape(tiled, self.levels)

    @cached_property
    def traffic(self) -> list[Traffic]:
        """The cost of each input."""
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
        shape, device = self.shape, self.device
        fits = (shape.threads <= device.block_threads) & (shape.vthreads <= device.block_vthreads)
        fits &= self.shared_bytes <= np.where(
            self.large, device.large_shared_bytes, device.block_shared_bytes
        )
        fits &= shape.accumulators <= MOST_ACCUMULATORS
        few = terms((*self.tiled.data, *self.tiled.reductions)) <= 64
        fits &= few | (shape.threads >= np.minimum(32, terms(self.tiled.data)))
        for each, extents in self.shared_extents:
            if each.vector is None:
                continue
            width = self.rows[:, each.vector]
            inner = extents[-1]
            fits &= (inner % width == 0) & (each.shape[-1] % width == 0)
            fits &= width * each.item <= 16
        return np.asarray(fits)

    @cached_property
    def large(self) -> Mask:
        """Whether its kernel is one of very many multiply-adds; see `is_large`."""
        return is_large(self.tiled)

    @cached_property
    def registers(self) -> Column:
        """Registers of a thread, estimated."""
        loads = self._total([loads_of(each, self.levels) for each in self.tiled.inputs])
        copies = [product_of(extents, self.levels) for _, extents in self.shared_extents]
        held = self._total([np.ceil(each / self.shape.threads) for each in copies])
        held = np.where(self.buffers == 1, held, 0.0)
        return np.minimum(
            _BASE_REGISTERS + self.shape.accumulators + loads + held, _MOST_REGISTERS
        )

    @cached_property
    def resident(self) -> Column:
        """Blocks that a multiprocessor holds at once."""
        device, shape = self.device, self.shape
        warps = np.ceil(shape.threads / 32)
        limits = [
            np.full(len(self.rows), float(device.blocks)),
            device.warps // warps,
            device.registers // (self.registers * warps * 32),
            device.shared_bytes // (self.shared_bytes + 1024),
        ]
        return np.asarray(np.maximum(np.minimum.reduce(limits), 1.0))

    @cached_property
    def min_blocks(self) -> Rows:
        """The most of `MIN_BLOCKS` that a multiprocessor holds by these estimates.

        Nothing is asked for kernels that are not large: threads with more registers hide latencies
        as well as more threads do.
        """
        values, warps = np.array(MIN_BLOCKS), np.ceil(self.shape.threads / 32)
        held = np.minimum(self.resident, self.device.most_warps // warps)
        most = values[np.searchsorted(values, held, side="right") - 1]
        return np.where(self.large, most, MIN_BLOCKS[0])

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
        return np.ceil(self.shape.blocks / (self.device.sms * self.resident))

    @cached_property
    def seconds(self) -> Column:
        """An estimate of the time of the kernel."""
        shape, device = self.shape, self.device
        warps = np.ceil(shape.threads / 32)
        reads = self._total([each.reads for each in self.traffic])
        fused = shape.accumulators * shape.depth
        loop = np.where(self.unrolled > 0, 0.3, 2.0) * shape.depth
        costs = [np.where(each.regular > 0, _COPY, _COPY_APART) for _, each in self.copied]
        copying = self._total(
            [cost * each.copies for cost, (_, each) in zip(costs, self.copied, strict=True)]
        )
        issued = fused + reads * shape.depth + loop + copying + 30.0
        together = np.minimum(self.resident, np.ceil(shape.blocks / device.sms))
        throughput = together * warps * issued / device.schedulers
        answered = self._total([each.wavefronts for each in self.traffic]) * shape.depth
        waiting = np.where(self.unrolled > 0, 4.0, _LOOP_LATENCY)
        serial = shape.depth * (np.maximum(shape.accumulators, 4.0) + reads + waiting)
        alone = np.maximum(serial, warps * issued / device.schedulers) + copying
        late = np.maximum(alone + _ARRIVAL, (device.latency + alone) / np.maximum(self.ahead, 1.0))
        chain = np.where(self.ahead > 0, late, device.latency + alone)
        moved = self._total([each.sectors * 32.0 for _, each in self.copied])
        memory = together * moved / device.l2_bytes_per_cycle
        shared = together * warps * answered
        busy = np.maximum(throughput, shared) + _APART * np.minimum(throughput, shared)
        chunk = np.maximum(np.maximum(busy, memory), chain)
        written = shape.accumulators * warps * together * (32.0 / np.minimum(shape.run, 32.0))
        bloat = np.maximum(self.code / _MOST_CODE, 1.0) ** 1.5
        cycles = self.waves * (shape.chunks * chunk * bloat + written * 2.0 + 1000.0)
        return np.asarray(cycles / device.clock)

    @cached_property
    def expected_seconds(self) -> Column:
        """The same with what cannot be hidden: waits of few warps, and copies that threads issue.

        It is apart, as the features of trials that ship have the time without it.
        """
        few = self.shape.accumulators > _MANY_ACCUMULATORS
        kind = np.minimum(self.buffers, len(_WAITS) - 1).astype(np.int64)
        waits = np.where(self.shape.chunks > 1, np.array(_WAITS)[kind], 1.0)
        return np.asarray(self.seconds * np.where(few, _FEW_WARPS, 1.0) * waits)

    @cached_property
    def features(self) -> Column:
        """Columns for a learned model, as many for each stage; see `STAGE_FEATURES`."""
        shape, sms = self.shape, self.device.sms
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
        columns += lengths_of(self.levels.reductions, 4, 2, none)
        columns += lengths_of(self.levels.data[::-1], 6, 4, none)
        matrix = np.array(columns, np.float64).T
        return np.where(np.isfinite(matrix), matrix, 0.0)


# Columns of one stage.
STAGE_FEATURES = 21 + 3 * 8 + 4 * 2 + 6 * 4
