"""The analytical cost model of programs for CPUs: estimated times, and features of rows.

The time is a roofline of one core with three levels of memory: what the innermost tile loads to
registers for each operation, what a tile of the second level loads from the L1 cache, and what one
of the third loads from the L2 cache.
"""

from __future__ import annotations

from functools import cached_property

import numpy as np
import numpy.typing as npt

from autotune.auto_scheduler.layouts.layout_graph import LayoutRewriteOption
from autotune.auto_scheduler.problem.hardware_params import HardwareParams
from autotune.auto_scheduler.search.analytical.cpu_parameters import CpuParameters
from autotune.auto_scheduler.search.analytical.estimates import Estimates
from autotune.auto_scheduler.search.analytical.gpu_columns import (
    Levels,
    footprint,
    lengths_of,
    unrolled_steps,
)
from autotune.auto_scheduler.search.analytical.tiles import (
    Column,
    Tiled,
    TileInput,
    is_used,
    terms,
    tiled_stages,
)
from autotune.auto_scheduler.search.space.program import FactorSlot, Program, Rows
from autotune.auto_scheduler.search.space.sampler import ProductLimit, RowLimits

# Most partial results of the innermost tile.
_MOST_RESULTS = 512
# Statements that may be written out: compilers take long over more.
_MOST_CODE = 96.0
# Bytes of the narrowest vector; rows that lie so many bytes apart meet in few places of a cache,
# and what a load of such a row then costs more.
_NARROWEST, _PITCH, _APART = 16, 1024, 2.0
# Iterations of loops that compilers write out unasked.
_SHORT = 4
_DATA, _REDUCTIONS, _LEVELS = 6, 4, 3
_STAGE = 18 + _DATA * _LEVELS + _REDUCTIONS


class CpuCostModel:
    """The analytical cost model of one program.

    Args:
        program: whose rows are looked at.
        params: of the device.
        rewrite: what is done about the order of weights.
        host: the CPU; that of this machine if None.
    """

    def __init__(
        self,
        program: Program,
        params: HardwareParams,
        rewrite: LayoutRewriteOption = LayoutRewriteOption.NO_REWRITE,
        host: CpuParameters | None = None,
    ) -> None:
        self.program = program
        self.params = params
        self.host = host or CpuParameters.here()
        rewrites = rewrite is not LayoutRewriteOption.NO_REWRITE
        self.tiled: list[Tiled] = tiled_stages(program, rewrites)
        self.copied_s = 0.0
        if rewrite is LayoutRewriteOption.INSERT_TRANSFORM_STAGE:
            copied = [each.bytes for one in self.tiled for each in one.inputs if each.tiled]
            self.copied_s = _copy_s(sum(copied), params, self.host)

    @property
    def tiles(self) -> bool:
        """Whether a stage is tiled."""
        return bool(self.tiled)

    def __call__(self, rows: Rows) -> Estimates:
        """Return the estimates of rows."""
        seconds = np.full(len(rows), 1e-6 + self.copied_s)
        feasible = self._covered(rows)
        slowest = np.zeros((len(rows), _STAGE))
        longest = np.full(len(rows), -1.0)
        for tiled in self.tiled:
            stage = _Stage(tiled, rows, self.params, self.host)
            seconds = seconds + stage.seconds
            feasible &= stage.code <= _MOST_CODE
            slower = (stage.seconds > longest)[:, None]
            slowest = np.where(slower, np.column_stack(stage.features), slowest)
            longest = np.maximum(longest, stage.seconds)
        choices = [rows[:, at].astype(np.float64) for at in self._choices[:3]]
        none = np.zeros(len(rows))
        whole = [seconds * 1e9, none + len(self.tiled), *choices, *[none] * (3 - len(choices))]
        features = np.log2(np.maximum(np.column_stack([slowest, *whole]), 0.0) + 1.0)
        return Estimates(feasible, seconds, features.astype(np.float32))

    def feasible(self, rows: Rows) -> npt.NDArray[np.bool_]:
        """Return which rows give a text that compilers come to an end with."""
        fits = self._covered(rows)
        for tiled in self.tiled:
            fits &= _Stage(tiled, rows, self.params, self.host).code <= _MOST_CODE
        return fits

    def _covered(self, rows: Rows) -> npt.NDArray[np.bool_]:
        """Return which rows have the lengths of each run of elements make up all of it.

        A piece of a run is no rectangle: what is computed for one is the rectangle around it, so
        a stage that is computed in the loop over pieces has to have one only.
        """
        fits = np.ones(len(rows), bool)
        for slot in self.program.slots:
            if isinstance(slot, FactorSlot) and slot.covers:
                lengths = rows[:, self.program.columns[slot.step]]
                fits &= lengths.prod(axis=1) == slot.extent
                if self._in_pieces:
                    fits &= lengths[:, 0] == 1
        return fits

    @cached_property
    def _in_pieces(self) -> bool:
        """Whether a tiled stage is computed in the second loop over a run of elements."""
        state = self.program.state
        places = [
            state.attach[each.stage_id] for each in self.tiled if each.stage_id in state.attach
        ]
        around = [
            loop for target, last in places for loop in state.stages[target].iters[: last + 1]
        ]
        return any(loop.name.endswith("@.1") for loop in around)

    def limits(self) -> RowLimits:
        """Return the limits of feasible rows, for a `RowSampler`."""
        budgets = []
        for tiled in self.tiled:
            steps = [self.program.step_of(axis.columns) for axis in tiled.data]
            places = {step: (2,) for step in steps if step is not None}
            budgets.append(ProductLimit(places, float(_MOST_RESULTS)))
        return RowLimits(budgets, lambda rows: rows, self.feasible)

    @cached_property
    def _choices(self) -> list[int]:
        shown = {each.unroll for each in self.tiled}
        return self.program.choices_besides(shown)


class _Stage:
    """The estimates of one tiled stage, for many rows at once."""

    def __init__(
        self, tiled: Tiled, rows: Rows, params: HardwareParams, host: CpuParameters
    ) -> None:
        self.tiled, self.rows, self.params, self.host = tiled, rows, params, host
        self.levels = Levels(tiled, rows, _LEVELS, 1)

    def _reads(self, data: slice, reductions: slice) -> Column:
        """Return the bytes of all inputs that some levels of the tiles read."""
        total = np.zeros(len(self.rows))
        for each in self.tiled.inputs:
            extents = footprint(each, self.levels, data, reductions)
            size = np.full(len(self.rows), float(each.item))
            for extent in extents:
                size = size * extent
            total = total + size
        return total

    @cached_property
    def lanes(self) -> Column:
        """Lanes of the innermost loop."""
        data = self.levels.data
        return data[self.tiled.lanes][-1] if data else np.ones(len(self.rows))

    @cached_property
    def limit(self) -> Column:
        """Statements up to which loops are written out."""
        if self.tiled.unroll is None:
            return np.zeros(len(self.rows))
        return self.rows[:, self.tiled.unroll].astype(np.float64)

    @cached_property
    def code(self) -> Column:
        """Statements that are written out; a vector counts once."""
        limit = self.limit
        levels = self.levels
        lanes = self.tiled.lanes % max(len(levels.data), 1)
        others = [each for i, each in enumerate(levels.data) if i != lanes]
        data, chunks = [*levels.data[lanes : lanes + 1], *others[::-1]], levels.reductions[::-1]
        whole = [
            np.ceil(axis.extent / lengths.prod(axis=0))[None, :]
            for axis, lengths in zip(self.tiled.reductions, levels.reductions, strict=True)
        ]
        loops = [(each, slice(2, None)) for each in data[1:]]
        loops += [(each, slice(None)) for each in chunks]
        loops += [(each, slice(1, 2)) for each in data]
        loops += [(each, slice(None)) for each in whole[::-1]]
        return unrolled_steps(levels, loops, levels.one(), limit)

    @cached_property
    def parts(self) -> dict[str, Column]:
        """Times of one run by cause, in cycles of one core, and what they come from."""
        levels, every, host = self.levels, slice(None), self.host
        work = terms((*self.tiled.data, *self.tiled.reductions))
        results = levels.product(levels.data, slice(2, None))
        vectors = results / self.lanes * np.ceil(self.lanes / self.width)
        compute = work / results * self._step(vectors)
        near = self._reads(slice(1, None), every) + results * self.tiled.item
        far = self._reads(every, every)
        tiles_near = work / (
            levels.product(levels.data, slice(1, None)) * levels.product(levels.reductions, every)
        )
        first = tiles_near * near * np.where(near > host.l1_bytes, 2.0, 1.0) / host.l1_rate
        tiles_far = work / (
            levels.product(levels.data, every) * levels.product(levels.reductions, every)
        )
        second = tiles_far * far * np.where(far > host.l2_bytes, 2.0, 1.0) / host.l2_rate
        blocks = levels.one()
        for axis, lengths in zip(self.tiled.data, levels.data, strict=True):
            blocks = blocks * np.ceil(axis.extent / lengths.prod(axis=0))
        cores = float(max(self.params.num_cores, 1))
        balance = np.ceil(blocks / cores) * cores / blocks
        packed = self._packed()
        return {
            "compute": compute, "first": first, "second": second, "balance": balance,
            "blocks": blocks, "results": results, "vectors": vectors, "near": near, "far": far,
            "packed": packed, "packing": blocks * self._packing(packed), "run": self.run,
            "kept": levels.one() * self.kept, "width": self.width, "code": self.code,
        }  # fmt: skip

    @cached_property
    def width(self) -> Column:
        """Lanes that one instruction of the innermost loop takes."""
        most = max(self.host.vector_bytes // max(self.tiled.item, 1), 1)
        size = (self.lanes * self.tiled.item).astype(np.int64)
        granule = np.minimum(size & -size, 64) // max(self.tiled.item, 1)
        # Lanes that fill no vector are left to the compiler, which takes most of them one by one.
        whole = np.where(granule * self.tiled.item >= _NARROWEST, granule, 1.0)
        return np.minimum(whole * (1.0 if self.contiguous else 0.125), most).clip(1.0)

    @cached_property
    def contiguous(self) -> bool:
        """Whether all that is read lane by lane is contiguous."""
        return all(self._by_lane(each) in (0, 1) for each in self.tiled.inputs)

    def _by_lane(self, source: TileInput) -> int | None:
        """Return the stride of an input from lane to lane; copies have that of lanes."""
        step = _stride(source, self.tiled.lanes)
        return step if not source.together or not step else 1

    @cached_property
    def kept(self) -> Column:
        """Whether sums can be in registers: made apart, and no loop over them is left.

        Compilers write out loops over a few sums themselves.
        """
        lanes = self.tiled.lanes % max(len(self.levels.data), 1)
        elements = self.levels.one()
        for i, lengths in enumerate(self.levels.data):
            if i != lanes:
                elements = elements * lengths[-1]
        written_out = (elements <= self.limit) | (elements <= _SHORT)
        return np.where(written_out, float(self.tiled.apart), 0.0)

    @cached_property
    def run(self) -> Column:
        """Iterations of the reduction until the innermost tile is put away."""
        levels = self.levels
        whole = terms(self.tiled.reductions)
        inner = levels.product(levels.reductions, slice(None))
        alone = levels.product(levels.data, slice(1, 2)) == 1
        return np.where(alone, whole, inner)

    def _step(self, vectors: Column) -> Column:
        """Return the cycles of one iteration of the reduction, for the innermost tile."""
        loads, operands = self.levels.one() * 0, self.levels.one() * 0
        for each in self.tiled.inputs:
            size = self._operands(each)
            by_lane = self._by_lane(each) != 0
            loads = loads + (size / self.width if by_lane else size)
            operands = operands + (np.ceil(self.lanes / self.width) if by_lane else 0.0)
            if by_lane and not each.together and each.pitch % _PITCH == 0:
                loads = loads + _APART * size / self.width
        cycles = np.maximum(np.maximum(vectors / 2, loads / 2), self.host.latency)
        spilled = np.where(vectors + operands + 1 > self.host.registers, 2.0, 1.0)
        moved = np.where(self.kept > 0, 1.5 / self.run, 1.5) * vectors
        return cycles * spilled + moved

    def _operands(self, source: TileInput) -> Column:
        """Return how many elements of an input the innermost tile needs for one iteration.

        They are those that it reads, not all between the first and the last: images of which every
        second row is read, and runs of elements over several rows, have more of these.
        """
        size = self.levels.one()
        if any(factors is None for read in source.indices for factors in read):
            for extent in footprint(source, self.levels, slice(2, None), slice(0, 0)):
                size = size * extent
            return size
        for index, lengths in enumerate(self.levels.data):
            if any(is_used(f[index]) for read in source.indices for f in read if f is not None):
                size = size * lengths[-1]
        return size

    def _packed(self) -> Column:
        """Return the bytes that a block copies together."""
        total = self.levels.one() * 0
        chunk = self.levels.product(self.levels.reductions, slice(None))
        whole = terms(self.tiled.reductions)
        for each in self.tiled.inputs:
            if each.packed:
                size = self.levels.one() * each.item
                for extent in footprint(each, self.levels, slice(None), slice(None)):
                    size = size * extent
                total = total + size * whole / chunk
        return total

    def _packing(self, packed: Column) -> Column:
        """Return the cycles of these copies, and of what they push out of the second cache."""
        far = np.where(packed > self.host.l2_bytes, 2.0, 1.0)
        return packed / self.host.l2_rate * 2 * far

    @cached_property
    def seconds(self) -> Column:
        """An estimate of the time."""
        parts = self.parts
        cycles = np.maximum(parts["compute"], np.maximum(parts["first"], parts["second"]))
        cycles = cycles + parts["packing"]
        cores = float(max(self.params.num_cores, 1))
        return np.asarray(cycles * parts["balance"] / cores / self.host.frequency)

    @cached_property
    def features(self) -> list[Column]:
        """Columns for a learned model."""
        none = np.zeros(len(self.rows))
        unroll = none if self.tiled.unroll is None else self.rows[:, self.tiled.unroll]
        columns = [*self.parts.values(), self.lanes, unroll, self.seconds * 1e9]
        columns += lengths_of(self.levels.reductions, _REDUCTIONS, 1, none)
        columns += lengths_of(self.levels.data[::-1], _DATA, _LEVELS, none)
        return [np.asarray(each, np.float64) for each in columns]


def _copy_s(total: int, params: HardwareParams, host: CpuParameters) -> float:
    """Return the seconds in which weights are copied to another order, from beyond the caches."""
    return 4 * total / host.l2_rate / host.frequency / max(params.num_cores, 1)


def _stride(source: TileInput, axis: int) -> int | None:
    """Return the stride of an input along an axis; None if that is not known."""
    strides = []
    for read in source.indices:
        step = 0
        for factors, pitch in zip(read, source.pitches, strict=True):
            factor = None if factors is None else factors[axis]
            if not isinstance(factor, int):
                return None
            step += factor * pitch
        strides.append(step)
    return max(strides, key=abs, default=0)
