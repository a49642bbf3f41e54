"""Ranks rows of programs for CPUs: a draft of the time, and features for a model.

The draft is a roofline of one core in three levels: what the innermost tile reads for each
operation, what a tile of the second level reads from the first cache, and what one of the third
reads from the second.
"""

from __future__ import annotations

from functools import cached_property

import numpy as np
import numpy.typing as npt

from autotune.auto_scheduler.hardware_params import HardwareParams
from autotune.auto_scheduler.search.columns_gpu import Levels, footprint, unrolled_steps
from autotune.auto_scheduler.search.forms import Forms
from autotune.auto_scheduler.search.program import ChoiceSlot, Program, Rows
from autotune.auto_scheduler.search.sampler import Budget, Limits
from autotune.auto_scheduler.search.tiles import Column, Tiled, TiledAxis, tiled_stages
from autotune.utils.math import product

# Most partial results of the innermost tile, and floats of a register.
_MOST_RESULTS, _REGISTERS = 512, 16
# Statements that may be written out: compilers take long over more.
_MOST_CODE = 96.0
_FREQUENCY = 3e9
_L1, _L2 = 32 * 1024, 1024 * 1024
_L2_BYTES, _L3_BYTES = 32.0, 8.0
_DATA, _REDUCTIONS, _LEVELS = 6, 4, 3
_STAGE = 15 + _DATA * _LEVELS + _REDUCTIONS


class CpuForms:
    """Computes the closed forms of one program.

    Args:
        program: whose rows are looked at.
        params: of the device.
    """

    def __init__(self, program: Program, params: HardwareParams) -> None:
        self.program = program
        self.params = params
        self.tiled: list[Tiled] = tiled_stages(program)

    def __call__(self, rows: Rows) -> Forms:
        """Return the closed forms of rows."""
        seconds = np.full(len(rows), 1e-6)
        feasible = np.ones(len(rows), bool)
        slowest = np.zeros((len(rows), _STAGE))
        longest = np.full(len(rows), -1.0)
        for tiled in self.tiled:
            stage = _Stage(tiled, rows, self.params)
            seconds = seconds + stage.seconds
            feasible &= stage.code <= _MOST_CODE
            slower = (stage.seconds > longest)[:, None]
            slowest = np.where(slower, np.column_stack(stage.features), slowest)
            longest = np.maximum(longest, stage.seconds)
        choices = [rows[:, at].astype(np.float64) for at in self._choices[:3]]
        none = np.zeros(len(rows))
        whole = [seconds * 1e9, none + len(self.tiled), *choices, *[none] * (3 - len(choices))]
        features = np.log2(np.maximum(np.column_stack([slowest, *whole]), 0.0) + 1.0)
        return Forms(feasible, seconds, features.astype(np.float32))

    def feasible(self, rows: Rows) -> npt.NDArray[np.bool_]:
        """Return which rows give a text that compilers come to an end with."""
        fits = np.ones(len(rows), bool)
        for tiled in self.tiled:
            fits &= _Stage(tiled, rows, self.params).code <= _MOST_CODE
        return fits

    def limits(self) -> Limits:
        """Return what rows have to keep, for a `Sampler`."""
        budgets = []
        for tiled in self.tiled:
            places = {
                step: (2,) for axis in tiled.data if (step := self._step_of(axis)) is not None
            }
            budgets.append(Budget(places, float(_MOST_RESULTS)))
        return Limits(budgets, lambda rows: rows, self.feasible)

    def _step_of(self, axis: TiledAxis) -> int | None:
        columns = self.program.columns
        return next((step for step, at in columns.items() if at == axis.columns), None)

    @cached_property
    def _choices(self) -> list[int]:
        shown = {each.unroll for each in self.tiled}
        starts = [
            self.program.columns[slot.step].start
            for slot in self.program.slots
            if isinstance(slot, ChoiceSlot)
        ]
        return [start for start in starts if start not in shown]


class _Stage:
    """The closed forms of one tiled stage."""

    def __init__(self, tiled: Tiled, rows: Rows, params: HardwareParams) -> None:
        self.tiled, self.rows, self.params = tiled, rows, params
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
        return self.levels.data[-1][-1] if self.levels.data else np.ones(len(self.rows))

    @cached_property
    def code(self) -> Column:
        """Statements that are written out; a vector counts once."""
        limit = np.zeros(len(self.rows))
        if self.tiled.unroll is not None:
            limit = self.rows[:, self.tiled.unroll].astype(np.float64)
        levels = self.levels
        data, chunks = levels.data[::-1], levels.reductions[::-1]
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
        levels, every = self.levels, slice(None)
        work = float(product([a.extent for a in (*self.tiled.data, *self.tiled.reductions)]))
        width = max(self.params.vector_unit_bytes // max(self.tiled.item, 1), 1)
        results = levels.product(levels.data, slice(2, None))
        vectors = results / np.minimum(self.lanes, width)
        filled = self.lanes / (np.ceil(self.lanes / width) * width)
        overlap = np.clip(vectors / 8.0, 0.2, 1.0) * np.where(vectors > _REGISTERS * 2, 0.6, 1.0)
        loads = self._reads(slice(2, None), slice(0, 0)) / self.tiled.item / results
        unroll = 0 if self.tiled.unroll is None else self.rows[:, self.tiled.unroll]
        looped = np.where(results * levels.product(levels.reductions, every) <= unroll, 1.0, 1.2)
        compute = work / (2 * width * filled * overlap) * (1 + loads) * looped
        near = self._reads(slice(1, None), every) + results * self.tiled.item
        far = self._reads(every, every)
        tiles_near = work / (
            levels.product(levels.data, slice(1, None)) * levels.product(levels.reductions, every)
        )
        first = tiles_near * near * np.where(near > _L1, 2.0, 1.0) / _L2_BYTES
        tiles_far = work / (
            levels.product(levels.data, every) * levels.product(levels.reductions, every)
        )
        second = tiles_far * far * np.where(far > _L2, 2.0, 1.0) / _L3_BYTES
        blocks = np.ones(len(self.rows))
        for axis, lengths in zip(self.tiled.data, levels.data, strict=True):
            blocks = blocks * np.ceil(axis.extent / lengths.prod(axis=0))
        cores = float(max(self.params.num_cores, 1))
        balance = np.ceil(blocks / cores) * cores / blocks
        return {
            "compute": compute, "first": first, "second": second, "balance": balance,
            "blocks": blocks, "results": results, "vectors": vectors, "loads": loads,
            "near": near, "far": far, "overlap": overlap * 100, "code": self.code,
        }  # fmt: skip

    @cached_property
    def seconds(self) -> Column:
        """A draft of the time."""
        parts = self.parts
        cycles = np.maximum(parts["compute"], np.maximum(parts["first"], parts["second"]))
        cores = float(max(self.params.num_cores, 1))
        return np.asarray(cycles * parts["balance"] / cores / _FREQUENCY)

    @cached_property
    def features(self) -> list[Column]:
        """Columns for a learned model."""
        none = np.zeros(len(self.rows))
        unroll = none if self.tiled.unroll is None else self.rows[:, self.tiled.unroll]
        columns = [*self.parts.values(), self.lanes, unroll, self.seconds * 1e9]
        columns += _lengths(self.levels.reductions, _REDUCTIONS, 1, none)
        columns += _lengths(self.levels.data[::-1], _DATA, _LEVELS, none)
        return [np.asarray(each, np.float64) for each in columns]


def _lengths(
    axes: list[npt.NDArray[np.float64]], most: int, levels: int, none: Column
) -> list[Column]:
    columns = [each[i] if i < len(each) else none for each in axes[:most] for i in range(levels)]
    return columns + [none] * (most * levels - len(columns))
