"""Programs of the same structure, searched together as one population.

The factor of split-K is fixed in a program, so one sketch becomes several programs with the same
open numbers in the same columns, which differ in extents and coefficients. To estimate a few
hundred rows takes as long as a few thousand, so the rows of all these programs form one matrix;
its last column is the number of the program, by which the numbers that differ are looked up.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import replace
from itertools import groupby

import numpy as np

from autotune.auto_scheduler.search.analytical.estimates import Estimates
from autotune.auto_scheduler.search.analytical.gpu import GpuCostModel, Mask, Numbers
from autotune.auto_scheduler.search.analytical.same_code import PlainSum
from autotune.auto_scheduler.search.analytical.tiles import Number, Tiled, TiledAxis, TileInput
from autotune.auto_scheduler.search.program_search import AnalyticalCostModel, Row
from autotune.auto_scheduler.search.space.program import FactorSlot, Rows, Slot
from autotune.auto_scheduler.search.space.sampler import TINY, RowLimits, RowSampler

# How often new rows are looked for where there are rows of the last time.
_FRESH_TRIES = 2


class Stack:
    """Some programs of a task, with rows in a form of their own.

    A row of a stack is that of a program, and behind it its number among those of the stack,
    unless there is one only.

    Args:
        members: the numbers of its programs in the task, ascending.
        models: the cost model of each.
        rng: source of all randomness.
    """

    def __init__(
        self,
        members: Sequence[int],
        models: Sequence[AnalyticalCostModel],
        rng: np.random.Generator,
    ) -> None:
        self.members = tuple(members)
        self.cost_model = models[0] if len(models) == 1 else StackedCostModel(_gpu_models(models))
        self.limits = self.cost_model.limits()
        self.sampler = RowSampler([each.program for each in models], self.limits, rng)
        self._width = models[0].program.width
        # Whether threads of a GPU compute its tiles, without tensor cores, and large.
        self.is_large = isinstance(models[0], GpuCostModel) and models[0].is_large
        self._pool: Rows | None = None

    @property
    def tiles(self) -> bool:
        """Whether a stage of its programs is tiled."""
        return self.cost_model.tiles

    def drawn(self, count: int) -> Rows:
        """Return feasible rows at random: those of the last time, a quarter of them new."""
        if self._pool is None:
            self._pool = self.sampler.draw(count)
        else:
            fresh = self.sampler.draw(count // 4, _FRESH_TRIES)
            self._pool = np.concatenate([fresh, self._pool[: count - len(fresh)]])
        return self._pool

    def row_of(self, at: int, row: Row) -> Row:
        """Return a row of one of its programs as a row of its own."""
        return row if len(self.members) == 1 else np.append(row, self.members.index(at))

    def rows_of(self, rows: Sequence[tuple[int, Row]]) -> Rows:
        """Return those of some rows, each with the number of its program, that are of a member."""
        own = [self.row_of(at, row) for at, row in rows if at in self.members]
        width = self._width + (len(self.members) > 1)
        return np.array(own, np.int64).reshape(len(own), width)

    def place(self, row: Row) -> tuple[int, Row]:
        """Return the number of the program of a row, and its row there."""
        number = int(row[-1]) if len(self.members) > 1 else 0
        return self.members[number], row[: self._width]


def stacks_of(models: Sequence[AnalyticalCostModel], rng: np.random.Generator) -> list[Stack]:
    """Return the programs of a task, those together that differ in numbers alone."""
    kinds = [(repr(_kind(number, each)), number) for number, each in enumerate(models)]
    first: dict[str, int] = {}
    for kind, number in kinds:
        first.setdefault(kind, number)
    ordered = sorted(kinds, key=lambda each: (first[each[0]], each[1]))
    groups = [[n for _, n in each] for _, each in groupby(ordered, key=lambda each: each[0])]
    return [Stack(group, [models[n] for n in group], rng) for group in groups]


class StackedCostModel:
    """The analytical cost model of several programs for a GPU that differ in numbers alone.

    Args:
        members: those of each program.
    """

    def __init__(self, members: Sequence[GpuCostModel]) -> None:
        self.program, self.device = members[0].program, members[0].device
        self._members = members
        self._known = [each.numbers for each in members]

    @property
    def tiles(self) -> bool:
        """Whether a stage is tiled."""
        return self._members[0].tiles

    def __call__(self, rows: Rows) -> Estimates:
        """Return the estimates of rows of a stack."""
        return self._of(rows)(rows[:, :-1])

    def repair(self, rows: Rows) -> Rows:
        """Return rows with choices changed that their lengths do not allow; see `GpuCostModel`."""
        return np.column_stack([self._of(rows).repair(rows[:, :-1]), rows[:, -1]])

    def feasible(self, rows: Rows) -> Mask:
        """Return which rows keep the limits of the device."""
        return self._of(rows).feasible(rows[:, :-1])

    def apart(self, rows: Rows) -> list[tuple[list[int], Mask]]:
        """Return the same of stages that have no column in common; see `GpuCostModel`."""
        return self._of(rows).apart(rows[:, :-1])

    def limits(self) -> RowLimits:
        """Return the limits of feasible rows of a stack, for a `RowSampler`."""
        budgets = self._members[0].limits().budgets
        return RowLimits(budgets, self.repair, self.feasible, self.apart)

    def _of(self, rows: Rows) -> GpuCostModel:
        """Return a cost model whose numbers are those of each row's program."""
        which = rows[:, -1]
        extra = np.array([each.extra_seconds for each in self._known])[which]
        tiled = zip(*(each.tiled for each in self._known), strict=True)
        plain = zip(*(each.plain for each in self._known), strict=True)
        numbers = Numbers(
            [_tiled_at(each, which) for each in tiled],
            [_sum_at(each, which) for each in plain],
            extra,
        )
        return GpuCostModel(self.program, self.device, numbers)


def _gpu_models(models: Sequence[AnalyticalCostModel]) -> list[GpuCostModel]:
    found = [each for each in models if isinstance(each, GpuCostModel)]
    assert len(found) == len(models)
    return found


# ---- what programs of a stack have in common


def _kind(number: int, model: AnalyticalCostModel) -> Hashable:
    """Return what is equal for programs that differ in numbers alone.

    Those of tensor cores and of CPUs, and those that are enumerated, are looked at one by one.
    """
    if type(model) is not GpuCostModel or not model.tiled or model.program.size <= TINY:
        return number
    known = model.numbers
    plain = [(each.limit, each.threads, each.loops) for each in known.plain]
    stages = [_stage_kind(each) for each in known.tiled]
    return tuple(map(_slot_kind, model.program.slots)), tuple(stages), tuple(plain)


def _slot_kind(slot: Slot) -> Hashable:
    if isinstance(slot, FactorSlot):
        return slot.step, slot.parts, slot.innermost, slot.covers
    return slot.step, 0


def _stage_kind(tiled: Tiled) -> Hashable:
    axes = [
        (each.columns, each.decided, each.extent if each.columns is None else 0)
        for each in (*tiled.data, *tiled.reductions)
    ]
    inputs = tuple(replace(each, indices=_like(each)) for each in tiled.inputs)
    return len(tiled.data), tuple(axes), replace(tiled, data=(), reductions=(), inputs=inputs)


def _like(source: TileInput) -> tuple[tuple[tuple[Number, ...] | None, ...], ...]:
    """Return the indices of an input, with 2 for all larger coefficients."""
    return tuple(
        tuple(
            None if factors is None else tuple(min(max(each, -2), 2) for each in map(int, factors))
            for factors in read
        )
        for read in source.indices
    )


# ---- the numbers of the program of each row


def _at(values: Sequence[Number], which: Rows) -> Number:
    """Return the number of each row's program; one for all where it is the same in all."""
    if all(each == values[0] for each in values):
        return values[0]
    return np.array(values, np.int64)[which]


def _sum_at(several: Sequence[PlainSum], which: Rows) -> PlainSum:
    return replace(several[0], terms=_at([each.terms for each in several], which))


def _tiled_at(several: Sequence[Tiled], which: Rows) -> Tiled:
    return replace(
        several[0],
        data=_axes_at([each.data for each in several], which),
        reductions=_axes_at([each.reductions for each in several], which),
        inputs=tuple(
            _input_at(each, which) for each in zip(*(one.inputs for one in several), strict=True)
        ),
    )


def _axes_at(several: Sequence[tuple[TiledAxis, ...]], which: Rows) -> tuple[TiledAxis, ...]:
    return tuple(
        replace(axes[0], extent=_at([each.extent for each in axes], which))
        for axes in zip(*several, strict=True)
    )


def _input_at(several: Sequence[TileInput], which: Rows) -> TileInput:
    reads = zip(*(each.indices for each in several), strict=True)
    return replace(
        several[0],
        indices=tuple(
            tuple(_factors_at(each, which) for each in zip(*read, strict=True)) for read in reads
        ),
    )


def _factors_at(
    several: Sequence[tuple[Number, ...] | None], which: Rows
) -> tuple[Number, ...] | None:
    known = [each for each in several if each is not None]
    if not known:
        return None
    return tuple(_at(each, which) for each in zip(*known, strict=True))
