"""Draws rows of a program, and changes them: populations are matrices, nothing is lowered.

Rows are drawn under the limits of the device instead of being thrown away by them: a split gets
only lengths that leave the product over all splits of a level within its budget. Mutations move a
prime factor from one loop to another, as in TVM's evolutionary search; crossover takes each slot
whole from either parent, which is always a valid row.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt

from autotune.auto_scheduler.search.factors import factorings, primes
from autotune.auto_scheduler.search.program import ChoiceSlot, FactorSlot, Program, Rows, Slot

Mask = npt.NDArray[np.bool_]
# Rows that are looked at for each one that is wanted, before it is taken that there are no more.
_TRIES = 8
# Rows that are drawn together at least.
_FEWEST = 256
# Places of a table that are tried for one row.
_PICKS = 12
# Programs of at most so many rows are enumerated.
_TINY = 4096
# Share of mutations that change a choice, not a split.
_CHOICE_SHARE = 0.25


@dataclass(frozen=True)
class Budget:
    """A limit of the product of some lengths.

    Attributes:
        levels: step of a split -> the places of its lengths that count.
        most: the limit.
    """

    levels: Mapping[int, tuple[int, ...]]
    most: float


@dataclass(frozen=True)
class Limits:
    """What a row has to keep.

    Attributes:
        budgets: products that must stay small.
        repair: returns rows with choices changed that their lengths do not allow.
        feasible: says which rows keep all limits.
    """

    budgets: Sequence[Budget]
    repair: Callable[[Rows], Rows]
    feasible: Callable[[Rows], Mask]


class Sampler:
    """Rows of one program.

    Args:
        program: whose rows they are.
        limits: what they have to keep.
        rng: source of all randomness.
    """

    def __init__(self, program: Program, limits: Limits, rng: np.random.Generator) -> None:
        self.program = program
        self.limits = limits
        self.rng = rng
        # Rows that were found and not wanted yet, and how many were looked at for each at last.
        self._stock: Rows = np.empty((0, program.width), np.int64)
        self._drawn_for_one = 1.0

    def draw(self, count: int, tries: int = _TRIES) -> Rows:
        """Return up to ``count`` different feasible rows; all there are, if these are few.

        So many times ``count`` are looked at before there are fewer. Those that were found and not
        wanted are kept for the next time.
        """
        if self.program.size <= _TINY:
            rows = distinct(self.kept(self._all()))
            few: Rows = rows[self.rng.permutation(len(rows))[:count]]
            return few
        found, left = self._stock, tries * max(count, _FEWEST)
        while len(found) < count and left > 0:
            wanted = (count - len(found)) * self._drawn_for_one
            looked_at = min(max(math.ceil(wanted), _FEWEST), left)
            kept = self.kept(self._drawn(looked_at))
            found, left = distinct(np.concatenate([found, kept])), left - looked_at
            self._drawn_for_one = looked_at / max(len(kept), 1)
        mixed: Rows = found[self.rng.permutation(len(found))]
        self._stock = mixed[count:]
        return mixed[:count]

    def mutate(self, rows: Rows) -> Rows:
        """Return each row with one slot changed; it may break the limits now: see `kept`."""
        new: Rows = rows.copy()
        slots = [slot for slot in self.program.slots if _is_open(slot)]
        if not slots or not len(rows):
            return new[:0]
        weights = np.array([_weight(slot) for slot in slots])
        chosen = self.rng.choice(len(slots), size=len(rows), p=weights / weights.sum())
        for at, slot in enumerate(slots):
            which = np.flatnonzero(chosen == at)
            columns = self.program.columns[slot.step]
            if isinstance(slot, ChoiceSlot):
                new[which, columns.start] = self.rng.choice(slot.values, size=len(which))
            else:
                new[which, columns] = self._moved(slot, new[which, columns])
        return new

    def cross(self, a: Rows, b: Rows) -> Rows:
        """Return children with each slot from one parent or the other; they may break limits."""
        take = self.rng.random((len(a), len(self.program.slots))) < 0.5
        widths = [slot.width for slot in self.program.slots]
        children: Rows = np.where(np.repeat(take, widths, axis=1), a, b)
        return children

    def neighbours(self, row: Rows) -> Rows:
        """Return the rows that differ by one prime factor moved, or by the next choice."""
        found = []
        for slot in self.program.slots:
            columns = self.program.columns[slot.step]
            for values in _near(slot, [int(value) for value in row[columns]]):
                new = row.copy()
                new[columns] = values
                found.append(new)
        return self.kept(np.array(found, np.int64).reshape(len(found), self.program.width))

    def kept(self, rows: Rows) -> Rows:
        """Return those rows that keep the limits, with choices repaired."""
        if not len(rows):
            return rows
        repaired = self.limits.repair(rows)
        kept: Rows = repaired[self.limits.feasible(repaired)]
        return kept

    def _all(self) -> Rows:
        rows = np.empty((1, 0), np.int64)
        for slot in self.program.slots:
            values = _values(slot)
            left = np.repeat(rows, len(values), axis=0)
            rows = np.concatenate([left, np.tile(values, (len(rows), 1))], axis=1)
        return rows

    def _drawn(self, count: int) -> Rows:
        """Draw slot by slot, those of splits in a random order so that none gets all there is."""
        rows = np.ones((count, self.program.width), np.int64)
        left = [np.full(count, budget.most) for budget in self.limits.budgets]
        splits = [slot for slot in self.program.slots if isinstance(slot, FactorSlot)]
        for at in self.rng.permutation(len(splits)):
            slot = splits[at]
            table, uses = self._tables[slot.step]
            pick = self._picked(count, len(table), [(use, left[i]) for i, use in uses])
            rows[:, self.program.columns[slot.step]] = table[pick]
            for i, use in uses:
                left[i] = left[i] / use[pick]
        for slot in self.program.slots:
            if isinstance(slot, ChoiceSlot):
                column = self.program.columns[slot.step].start
                rows[:, column] = self.rng.choice(slot.values, size=count)
        return rows

    @cached_property
    def _tables(self) -> Mapping[int, tuple[Rows, list[tuple[int, Rows]]]]:
        """The lengths of each split, and what of which budgets they take."""
        found = {}
        for slot in self.program.slots:
            if isinstance(slot, FactorSlot):
                table = factorings(slot.extent, slot.parts, slot.innermost)
                uses = [
                    (i, table[:, budget.levels[slot.step]].prod(axis=1))
                    for i, budget in enumerate(self.limits.budgets)
                    if slot.step in budget.levels
                ]
                found[slot.step] = table, uses
        return found

    def _picked(
        self, count: int, size: int, uses: Sequence[tuple[Rows, npt.NDArray[np.float64]]]
    ) -> Rows:
        """Return for each row a place in a table that its budgets allow; 0 always is allowed.

        Args:
            count: how many rows.
            size: of the table.
            uses: what each place takes of a budget, and what each row has left of that.
        """
        pick = np.zeros(count, np.int64)
        open_ = np.arange(count)
        for _ in range(_PICKS):
            if not len(open_):
                break
            tried = self.rng.integers(size, size=len(open_))
            fits = np.ones(len(open_), bool)
            for use, rest in uses:
                fits &= use[tried] <= rest[open_]
            pick[open_[fits]] = tried[fits]
            open_ = open_[~fits]
        return pick

    def _moved(self, slot: FactorSlot, lengths: Rows) -> Rows:
        """Move one prime factor of each row from one loop of a split to another."""
        whole = np.column_stack([slot.extent // lengths.prod(axis=1), lengths])
        count, loops = whole.shape
        source = np.argmax(self.rng.random(whole.shape) * (whole > 1), axis=1)
        target = (source + self.rng.integers(1, loops, size=count)) % loops
        every = np.arange(count)
        factor = np.ones(count, np.int64)
        held = whole[every, source]
        for value in np.unique(held):
            if value > 1:
                which = held == value
                factor[which] = self.rng.choice(primes(int(value)), size=int(which.sum()))
        too_long = (target == loops - 1) & (whole[every, target] * factor > slot.innermost)
        factor[too_long] = 1
        whole[every, source] //= factor
        whole[every, target] *= factor
        return whole[:, 1:]


def distinct(rows: Rows) -> Rows:
    """Return each row once, in an order of their own.

    Rows are told apart by a hash of 64 bits: sorting whole rows takes ten times as long.
    """
    if not rows.shape[1]:
        return rows[:1]
    factors = _MIX[: rows.shape[1]] if rows.shape[1] <= len(_MIX) else _mixers(rows.shape[1])
    _, first = np.unique((rows + 1) @ factors, return_index=True)
    kept: Rows = rows[first]
    return kept


def _mixers(count: int) -> Rows:
    """Return odd factors that spread the columns of a row over all bits."""
    return np.random.default_rng(7).integers(-(2**62), 2**62, count) * 2 + 1


_MIX = _mixers(256)


def _is_open(slot: Slot) -> bool:
    if isinstance(slot, ChoiceSlot):
        return len(slot.values) > 1
    return slot.extent > 1


def _weight(slot: Slot) -> float:
    """Return how often a slot is changed: the more ways it has, the more."""
    if isinstance(slot, ChoiceSlot):
        return 2 * _CHOICE_SHARE
    return math.sqrt(len(primes(slot.extent)))


def _values(slot: Slot) -> Rows:
    if isinstance(slot, ChoiceSlot):
        return np.array(slot.values, np.int64)[:, None]
    return factorings(slot.extent, slot.parts, slot.innermost)


def _near(slot: Slot, values: list[int]) -> list[list[int]]:
    if isinstance(slot, ChoiceSlot):
        at = slot.values.index(values[0]) if values[0] in slot.values else 0
        return [[slot.values[i]] for i in (at - 1, at + 1) if 0 <= i < len(slot.values)]
    whole = [slot.extent // int(np.prod(values)), *values]
    found = []
    for source, length in enumerate(whole):
        for factor in set(primes(length)):
            for target in range(len(whole)):
                new = list(whole)
                new[source] //= factor
                new[target] *= factor
                if target != source and new[-1] <= slot.innermost:
                    found.append(new[1:])
    return found
