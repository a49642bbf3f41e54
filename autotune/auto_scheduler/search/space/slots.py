"""The slots (open numbers) of programs as tables, from which numpy draws many rows at once."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import cached_property

import numpy as np
import numpy.typing as npt

from autotune.auto_scheduler.search.space.factors import factorings, primes
from autotune.auto_scheduler.search.space.program import (
    ChoiceSlot,
    FactorSlot,
    Program,
    Rows,
    Slot,
)

Table = npt.NDArray[np.float64]
# Share of mutations that change a choice, not a split.
_CHOICE_SHARE = 0.25


class SlotTables:
    """The slots of some programs, which have slots of the same kinds in the same columns.

    Args:
        programs: whose they are.

    Attributes:
        starts: first column of each slot.
        widths: columns of each slot.
        innermost: most iterations of an innermost loop, for each slot of a split.
        extents: what is split, shape (programs, slots); 1 for choices.
        counts: how many values a choice has, shape (programs, slots); 1 for splits.
        choices: these values, shape (programs, slots, most of them).
        weights: how often a slot is changed, the more ways it has, the more; (programs, slots).
    """

    def __init__(self, programs: Sequence[Program]) -> None:
        self._programs = programs
        first = programs[0]
        self.starts = _whole([first.columns[slot.step].start for slot in first.slots])
        self.widths = _whole([slot.width for slot in first.slots])
        self.innermost = _whole([getattr(slot, "innermost", 0) for slot in first.slots])
        rows = [program.slots for program in programs]
        self.extents = _whole([[getattr(slot, "extent", 1) for slot in row] for row in rows])
        lists = [[getattr(slot, "open_values", (0,)) for slot in row] for row in rows]
        self.counts = _whole([[len(values) for values in row] for row in lists])
        most = int(self.counts.max(initial=1))
        padded = [
            [(*values, *values[:1] * (most - len(values))) for values in row] for row in lists
        ]
        self.choices = _whole(padded)
        self.weights: Table = np.array([[_weight(slot) for slot in row] for row in rows])

    @cached_property
    def open_(self) -> bool:
        """Whether each program has a slot that can be changed."""
        return bool(len(self.starts) and self.weights.sum(axis=1).all())

    @cached_property
    def groups(self) -> dict[int, npt.NDArray[np.bool_]]:
        """Lengths that a slot has -> which slots have so many; choices have 0."""
        parts = [slot.parts if isinstance(slot, FactorSlot) else 0 for slot in self._slots]
        return {each: np.array(parts) == each for each in dict.fromkeys(parts)}

    @cached_property
    def same(self) -> npt.NDArray[np.bool_]:
        """Whether a slot has the same values in two programs; (programs, programs, slots)."""
        slots = [program.slots for program in self._programs]
        return np.array(
            [[[x == y for x, y in zip(a, b, strict=True)] for b in slots] for a in slots]
        )

    def factorings(self, at: int) -> tuple[Rows, Rows, Rows]:
        """Return all lengths of a split, and of each program the first place and their number."""
        if at not in self._tables:
            tables = [values_of(program.slots[at]) for program in self._programs]
            sizes = np.array([len(table) for table in tables])
            self._tables[at] = np.concatenate(tables), sizes.cumsum() - sizes, sizes
        return self._tables[at]

    @cached_property
    def _tables(self) -> dict[int, tuple[Rows, Rows, Rows]]:
        return {}

    @property
    def _slots(self) -> tuple[Slot, ...]:
        return self._programs[0].slots


def values_of(slot: Slot) -> Rows:
    """Return all values of a slot, one a row."""
    if isinstance(slot, ChoiceSlot):
        return np.array(slot.open_values, np.int64)[:, None]
    return factorings(slot.extent, slot.parts, slot.innermost)


def _whole(values: Sequence[object]) -> Rows:
    return np.array(values, np.int64)


def _weight(slot: Slot) -> float:
    """Return how often a slot is changed; one that has one value never is."""
    if isinstance(slot, ChoiceSlot):
        return 2 * _CHOICE_SHARE if len(slot.open_values) > 1 else 0.0
    return math.sqrt(len(primes(slot.extent)))
