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

from autotune.auto_scheduler.search.space.factors import primes
from autotune.auto_scheduler.search.space.program import (
    ChoiceSlot,
    FactorSlot,
    Program,
    Rows,
    Slot,
)
from autotune.auto_scheduler.search.space.slots import SlotTables, values_of

Mask = npt.NDArray[np.bool_]
# Rows that are looked at for each one that is wanted, before it is taken that there are no more.
_TRIES = 8
# Rows that are drawn together at least.
_FEWEST = 256
# Places of a table that are tried for one row.
_PICKS = 12
# Where less than this part of what is drawn keeps all limits, stages are drawn apart.
_RARE = 1 / 16
# Programs of at most so many rows are enumerated.
TINY = 4096


@dataclass(frozen=True)
class ProductLimit:
    """A limit of the product of some lengths.

    Attributes:
        levels: step of a split -> the places of its lengths that count.
        most: the limit.
    """

    levels: Mapping[int, tuple[int, ...]]
    most: float


@dataclass(frozen=True)
class RowLimits:
    """Limits that a row must observe.

    Attributes:
        budgets: products that must stay small.
        repair: returns rows with choices changed that their lengths do not allow.
        feasible: says which rows keep all limits.
        apart: the same for stages that have no column in common: the columns of each, and which
            rows keep its limits.
    """

    budgets: Sequence[ProductLimit]
    repair: Callable[[Rows], Rows]
    feasible: Callable[[Rows], Mask]
    apart: Callable[[Rows], Sequence[tuple[list[int], Mask]]] = lambda rows: ()


class RowSampler:
    """Rows of a program, or of several that differ in numbers alone.

    Of several a row has one more column, the last: the number of its program among them.

    Args:
        programs: whose rows they are; several have slots of the same kinds in the same columns,
            and none of them is so small that it is enumerated.
        limits: what they have to keep.
        rng: source of all randomness.
    """

    def __init__(
        self, programs: Program | Sequence[Program], limits: RowLimits, rng: np.random.Generator
    ) -> None:
        self._programs = [programs] if isinstance(programs, Program) else [*programs]
        self.program = self._programs[0]
        self.limits = limits
        self.rng = rng
        self._several = len(self._programs) > 1
        self._width = self.program.width + self._several
        # Rows that were found and not wanted yet, and how many were looked at for each at last.
        self._stock: Rows = np.empty((0, self._width), np.int64)
        self._drawn_for_one = 1.0

    @cached_property
    def _slots(self) -> SlotTables:
        return SlotTables(self._programs)

    def draw(self, count: int, tries: int = _TRIES) -> Rows:
        """Return up to ``count`` different feasible rows; all there are, if these are few.

        So many times ``count`` are looked at before there are fewer. Those that were found and not
        wanted are kept for the next time.
        """
        if self.program.size <= TINY:
            rows = distinct(self.kept(self._all()))
            few: Rows = rows[self.rng.permutation(len(rows))[:count]]
            return few
        found, left = self._stock, tries * max(count, _FEWEST)
        while len(found) < count and left > 0:
            wanted = (count - len(found)) * self._drawn_for_one
            looked_at = min(max(math.ceil(wanted), _FEWEST), left)
            drawn = self._drawn(looked_at)
            kept = self.kept(drawn)
            if len(kept) < _RARE * looked_at:
                kept = np.concatenate([kept, self.kept(self._composed(drawn))])
            found, left = distinct(np.concatenate([found, kept])), left - looked_at
            self._drawn_for_one = looked_at / max(len(kept), 1)
        mixed: Rows = found[self.rng.permutation(len(found))]
        self._stock = mixed[count:]
        return mixed[:count]

    def mutate(self, rows: Rows) -> Rows:
        """Return each row with one slot changed; it may break the limits now: see `kept`."""
        new: Rows = rows.copy()
        tables, which = self._slots, self._which(rows)
        if not tables.open_ or not len(rows):
            return new[:0]
        bounds = tables.weights[which].cumsum(axis=1)
        drawn = self.rng.random(len(rows)) * bounds[:, -1]
        chosen = (bounds <= drawn[:, None]).sum(axis=1)
        for parts, group in tables.groups.items():
            at = np.flatnonzero(group[chosen])
            slots = chosen[at]
            columns = tables.starts[slots][:, None] + np.arange(parts or 1)
            if parts:
                lengths = rows[at[:, None], columns]
                new[at[:, None], columns] = self._moved(slots, which[at], lengths)
            else:
                counts = tables.counts[which[at], slots]
                picked = (self.rng.random(len(at)) * counts).astype(np.int64)
                new[at, columns[:, 0]] = tables.choices[which[at], slots, picked]
        return new

    def cross(self, a: Rows, b: Rows) -> Rows:
        """Return children with each slot from one parent or the other; they may break limits.

        They are of the program of the first, and have of the second what both programs allow.
        """
        tables = self._slots
        take = self.rng.random((len(a), len(self.program.slots))) < 0.5
        if self._several:
            take |= ~tables.same[self._which(a), self._which(b)]
        children: Rows = a.copy()
        width = self.program.width
        mask = np.repeat(take, tables.widths, axis=1)
        children[:, :width] = np.where(mask, a[:, :width], b[:, :width])
        return children

    def neighbours(self, row: Rows) -> Rows:
        """Return the rows that differ by one prime factor moved, or by the next choice."""
        found = []
        for slot in self._programs[int(self._which(row[None])[0])].slots:
            columns = self.program.columns[slot.step]
            near = _near(slot, [int(value) for value in row[columns]])
            new = np.tile(row, (len(near), 1))
            if near:
                new[:, columns] = near
            found.append(new)
        return np.concatenate([row[None][:0], *found])

    def kept(self, rows: Rows) -> Rows:
        """Return those rows that keep the limits, with choices repaired."""
        if not len(rows):
            return rows
        repaired = self.limits.repair(rows)
        kept: Rows = repaired[self.limits.feasible(repaired)]
        return kept

    def _composed(self, rows: Rows) -> Rows:
        """Return rows whose stages each keep their limits, taken from different ones of some rows.

        Of several stages next to no row keeps the limits of all, though many keep those of each.
        """
        new: Rows = self.limits.repair(rows)
        parts = self.limits.apart(new)
        if len(parts) < 2:
            return rows[:0]
        source, which = new.copy(), self._which(new)
        for number in range(len(self._programs)):
            own = np.flatnonzero(which == number)
            for columns, fits in parts:
                good = own[fits[own]]
                if len(good):
                    taken = good[self.rng.integers(len(good), size=len(own))]
                    new[own[:, None], columns] = source[taken[:, None], columns]
        return new

    def _which(self, rows: Rows) -> Rows:
        """Return the number of the program of each row."""
        return rows[:, -1] if self._several else np.zeros(len(rows), np.int64)

    def _all(self) -> Rows:
        rows = np.empty((1, 0), np.int64)
        for slot in self.program.slots:
            values = values_of(slot)
            left = np.repeat(rows, len(values), axis=0)
            rows = np.concatenate([left, np.tile(values, (len(rows), 1))], axis=1)
        return rows

    def _drawn(self, count: int) -> Rows:
        """Draw slot by slot, those of splits in a random order so that none gets all there is."""
        rows = np.ones((count, self._width), np.int64)
        which = np.arange(count) % len(self._programs)
        if self._several:
            rows[:, -1] = which
        left = [np.full(count, budget.most) for budget in self.limits.budgets]
        slots = self.program.slots
        splits = [i for i, slot in enumerate(slots) if isinstance(slot, FactorSlot)]
        for at in self.rng.permutation(len(splits)):
            slot = slots[splits[at]]
            table, first, sizes = self._slots.factorings(splits[at])
            uses = self._uses[slot.step]
            pick = self._picked(first[which], sizes[which], [(use, left[i]) for i, use in uses])
            rows[:, self.program.columns[slot.step]] = table[pick]
            for i, use in uses:
                left[i] = left[i] / use[pick]
        for at, slot in enumerate(slots):
            if isinstance(slot, ChoiceSlot):
                picked = (self.rng.random(count) * self._slots.counts[which, at]).astype(np.int64)
                column = self.program.columns[slot.step].start
                rows[:, column] = self._slots.choices[which, at, picked]
        return rows

    @cached_property
    def _uses(self) -> Mapping[int, list[tuple[int, Rows]]]:
        """What each place in the table of a split takes of which budgets."""
        return {
            slot.step: [
                (i, self._slots.factorings(at)[0][:, budget.levels[slot.step]].prod(axis=1))
                for i, budget in enumerate(self.limits.budgets)
                if slot.step in budget.levels
            ]
            for at, slot in enumerate(self.program.slots)
            if isinstance(slot, FactorSlot)
        }

    def _picked(
        self, first: Rows, sizes: Rows, uses: Sequence[tuple[Rows, npt.NDArray[np.float64]]]
    ) -> Rows:
        """Return for each row a place in a table that its budgets allow; the first always is.

        Args:
            first: of the places of each row.
            sizes: how many places each row has.
            uses: what each place takes of a budget, and what each row has left of that.
        """
        pick: Rows = first.copy()
        open_ = np.arange(len(first))
        for _ in range(_PICKS):
            if not len(open_):
                break
            tried = first[open_] + self.rng.integers(sizes[open_])
            fits = np.ones(len(open_), bool)
            for use, rest in uses:
                fits &= use[tried] <= rest[open_]
            pick[open_[fits]] = tried[fits]
            open_ = open_[~fits]
        return pick

    def _moved(self, slots: Rows, which: Rows, lengths: Rows) -> Rows:
        """Move one prime factor of each row from one loop of a split to another."""
        tables = self._slots
        outer = tables.extents[which, slots] // lengths.prod(axis=1)
        whole = np.column_stack([outer, lengths])
        count, loops = whole.shape
        source = np.argmax(self.rng.random(whole.shape) * (whole > 1), axis=1)
        target = (source + self.rng.integers(1, loops, size=count)) % loops
        every = np.arange(count)
        factor = self._prime_of(whole[every, source])
        longest = whole[every, target] * factor > tables.innermost[slots]
        factor[(target == loops - 1) & longest] = 1
        whole[every, source] //= factor
        whole[every, target] *= factor
        return np.asarray(whole[:, 1:])

    def _prime_of(self, numbers: Rows) -> Rows:
        """Return a prime factor of each number, of 1 that itself."""
        known, places = np.unique(numbers, return_inverse=True)
        found = [primes(int(number)) or (1,) for number in known]
        counts = np.array([len(each) for each in found], np.int64)
        flat = np.array([prime for each in found for prime in each], np.int64)
        first = counts.cumsum() - counts
        picked = (self.rng.random(len(numbers)) * counts[places]).astype(np.int64)
        return np.asarray(flat[first[places] + picked])


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


def _near(slot: Slot, values: list[int]) -> list[list[int]]:
    if isinstance(slot, ChoiceSlot):
        open_ = slot.open_values
        at = open_.index(values[0]) if values[0] in open_ else 0
        return [[open_[i]] for i in (at - 1, at + 1) if 0 <= i < len(open_)]
    whole = [slot.extent // math.prod(values), *values]
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
