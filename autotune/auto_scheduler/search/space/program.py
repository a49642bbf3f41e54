"""A program: an annotated sketch with open numbers, which are a row of integers.

A program fixes the transform steps of a state; what is open are the lengths of its splits
and choices from short lists (how far to unroll, how wide to copy). So a candidate is a row of
integers, a population a matrix, and steps are made only for what is built or logged.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
import numpy.typing as npt

from autotune.auto_scheduler.search.space.factors import factorings
from autotune.auto_scheduler.states.loop_state import StateObject
from autotune.auto_scheduler.states.recorded_state import RecordedState
from autotune.auto_scheduler.transform_steps import (
    PragmaStep,
    SplitStep,
    StorageAlignStep,
    TransformStep,
)
from autotune.auto_scheduler.transform_steps.loops import MIN_BLOCKS, PIPELINE

Rows = npt.NDArray[np.int64]
# Hints that are left out of a candidate, as they say nothing.
_NOTHING = (f"{PIPELINE}$0", f"{MIN_BLOCKS}$0")


@dataclass(frozen=True)
class FactorSlot:
    """The lengths of one split: factors of an extent.

    Attributes:
        step: which step of the program it is.
        extent: what is split.
        parts: how many lengths there are; the outermost loop gets what they leave.
        innermost: most iterations of the innermost loop.
        covers: whether they have to leave nothing: the last tile of an extent that was rounded up
            is cut short, which only a loop around all of them can be taken apart for.
    """

    step: int
    extent: int
    parts: int
    innermost: int
    covers: bool = False

    @property
    def width(self) -> int:
        """Columns of a row that it takes."""
        return self.parts


@dataclass(frozen=True)
class ChoiceSlot:
    """A number from a short list.

    Attributes:
        step: which step of the program has it: the length of a split, a limit of unrolling, the
            number of buffers, by how much rows of a tile in shared memory are longer, or how many
            blocks a multiprocessor is to hold.
        values: the numbers.
        follows: whether it follows from the other numbers of a row: `RowLimits.repair` decides it.
    """

    step: int
    values: tuple[int, ...]
    follows: bool = False

    @property
    def open_values(self) -> tuple[int, ...]:
        """The numbers among which a search chooses."""
        return self.values[:1] if self.follows else self.values

    @property
    def width(self) -> int:
        """Columns of a row that it takes."""
        return 1


Slot = FactorSlot | ChoiceSlot


@dataclass(frozen=True, eq=False)
class Program:
    """A fixed list of transform steps with open numbers.

    Attributes:
        state: the annotated sketch; open lengths are None.
        slots: the open numbers, in the order of their columns.
    """

    state: StateObject
    slots: tuple[Slot, ...]

    @cached_property
    def columns(self) -> Mapping[int, slice]:
        """Step -> the columns of its slot."""
        found, at = {}, 0
        for slot in self.slots:
            found[slot.step] = slice(at, at + slot.width)
            at += slot.width
        return found

    def lengths(self, step: int, rows: Rows) -> npt.NDArray[np.float64]:
        """Return the lengths of a split in rows: those of its slot, or what they always are."""
        columns, split = self.columns.get(step), self.state.transform_steps[step]
        if columns is not None:
            return rows[:, columns].astype(np.float64)
        assert isinstance(split, SplitStep)
        fixed = [float(length or 1) for length in split.lengths]
        return np.tile(fixed, (len(rows), 1))

    def step_of(self, columns: slice | None) -> int | None:
        """Return the step whose slot has these columns; None where none has."""
        return next((step for step, own in self.columns.items() if own == columns), None)

    def choices_besides(self, shown: Collection[int | None]) -> list[int]:
        """Return the columns of choices, but those that are shown elsewhere."""
        choices = [slot for slot in self.slots if isinstance(slot, ChoiceSlot)]
        starts = [self.columns[slot.step].start for slot in choices]
        return [start for start in starts if start not in shown]

    @property
    def width(self) -> int:
        """The number of columns of a row."""
        return sum(slot.width for slot in self.slots)

    @cached_property
    def size(self) -> int:
        """The number of rows that there are."""
        return int(np.prod([float(count_of(slot)) for slot in self.slots]))

    def candidate(self, row: Sequence[int] | Rows) -> RecordedState:
        """Return the state of a row."""
        steps = list(self.state.transform_steps)
        for slot in self.slots:
            values = [int(value) for value in row[self.columns[slot.step]]]
            steps[slot.step] = _filled(steps[slot.step], values)
        return RecordedState(tuple([step for step in steps if not _is_nothing(step)]))

    def row_of(self, steps: Sequence[TransformStep]) -> list[int] | None:
        """Return the row that gives these steps, or None where no row does."""
        steps = self._whole(steps)
        own = self.state.transform_steps
        if len(steps) != len(own) or not all(_same(own[at], steps[at]) for at in self._fixed):
            return None
        row: list[int] = []
        for slot in self.slots:
            values = _numbers(steps[slot.step])
            if values is None or len(values) != slot.width:
                return None
            row += values
        made = self.candidate(row).transform_steps
        return row if _alike(made, [step for step in steps if not _is_nothing(step)]) else None

    @cached_property
    def _fixed(self) -> list[int]:
        """Places of steps that are the same in all rows."""
        return [at for at in range(len(self.state.transform_steps)) if at not in self.columns]

    @cached_property
    def _nothings(self) -> list[tuple[int, TransformStep]]:
        """Steps that a candidate may omit, by position, in the form that has no effect."""
        found = ((at, _nothing_like(step)) for at, step in enumerate(self.state.transform_steps))
        return [(place, nothing) for place, nothing in found if nothing is not None]

    def _whole(self, steps: Sequence[TransformStep]) -> list[TransformStep]:
        """Return steps with those put back that a candidate leaves out as they say nothing."""
        found = list(steps)
        for place, nothing in self._nothings:
            there = found[place] if place < len(found) else None
            if there is None or _nothing_like(there) != nothing:
                found.insert(place, nothing)
        return found


def _filled(step: TransformStep, values: list[int]) -> TransformStep:
    if isinstance(step, SplitStep):
        return replace(step, lengths=tuple(values))
    if isinstance(step, StorageAlignStep):
        return replace(step, offset=values[0])
    assert isinstance(step, PragmaStep)
    return replace(step, pragma_type=f"{_key(step)}${values[0]}")


def _key(step: PragmaStep) -> str:
    """Return the name of a hint without its number."""
    return step.pragma_type.partition("$")[0]


def _is_nothing(step: TransformStep) -> bool:
    """Whether a step says nothing: records are clearer without, and TVM can replay them."""
    if isinstance(step, StorageAlignStep):
        return step.offset == 0
    return isinstance(step, PragmaStep) and step.pragma_type in _NOTHING


def _nothing_like(step: TransformStep) -> TransformStep | None:
    """Return what a step is where it says nothing; None for steps that always say something."""
    if isinstance(step, StorageAlignStep):
        return replace(step, offset=0)
    if isinstance(step, PragmaStep) and f"{_key(step)}$0" in _NOTHING:
        return replace(step, pragma_type=f"{_key(step)}$0")
    return None


def _numbers(step: TransformStep) -> list[int] | None:
    if isinstance(step, SplitStep):
        return [int(length) for length in step.lengths if length is not None]
    if isinstance(step, StorageAlignStep):
        return [step.offset]
    if isinstance(step, PragmaStep):
        numbers = (step.unroll, step.pipeline, step.min_blocks)
        return next(([number] for number in numbers if number is not None), None)
    return None


def _alike(a: Sequence[TransformStep], b: Sequence[TransformStep]) -> bool:
    """Whether steps say the same; the extents that splits record are only remarks."""
    return len(a) == len(b) and all(map(_same, a, b))


def _same(a: TransformStep, b: TransformStep) -> bool:
    if not isinstance(a, SplitStep) or not isinstance(b, SplitStep):
        return a is b or a == b
    return (a.stage_id, a.iter_id, a.lengths, a.inner_to_outer) == (
        b.stage_id, b.iter_id, b.lengths, b.inner_to_outer,
    )  # fmt: skip


def count_of(slot: Slot) -> int:
    """Return how many values a slot has."""
    if isinstance(slot, ChoiceSlot):
        return len(slot.open_values)
    return len(factorings(slot.extent, slot.parts, slot.innermost))
