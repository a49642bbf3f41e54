"""Lists of all valid choices of some knobs, if these are few, for constraints of any form.

Each case of the constraints (`cases`) is listed separately, one knob after another: a condition
drops choices as soon as all its knobs are chosen. A space of several kinds of kernels has a case
for each kind, in which most knobs have few values. Listed choices are counted and drawn without
evaluating the constraints again.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import islice
from math import prod

import numpy as np

from autotune.task.constraints.cases import Case, cases_of
from autotune.task.constraints.classes import Classes, find
from autotune.task.constraints.constraint import (
    BoolArray,
    Constraint,
    TracedConstraint,
    connected,
    may_divide_by_zero,
)
from autotune.task.constraints.elimination import order_of
from autotune.task.constraints.radix import WEIGHT_LIMIT, IntArray
from autotune.task.constraints.symbols import Symbol, Values

# A symbol, and whether it must be true.
Condition = tuple[Symbol, bool]
# Choices that are looked at before listing is given up: of a case, which takes some tens of
# milliseconds, and of all.
MOST_OF_CASE, MOST = 1 << 18, 1 << 20
# Cases of a constraint, and of all constraints together.
MOST_CASES = 64


class Unlisted(Exception):
    """There are too many choices, or conditions that cannot be evaluated at any point."""


class Listing:
    """The combinations of classes that constraints allow, as a list.

    Ranks 0 to `total` enumerate the allowed combinations of digits.

    Attributes:
        knobs: positions of all knobs that the constraints read.
        total: number of allowed combinations of digits.
        looked_at: choices of some or all knobs for which a condition was evaluated.

    Raises:
        Unlisted: too many choices, or not from symbols alone.
    """

    def __init__(self, constraints: Sequence[Constraint], dims: Sequence[int]) -> None:
        self._classes = Classes(constraints)
        self.knobs = self._classes.knobs
        self._members = dict(zip(self.knobs, self._classes.members, strict=True))
        if prod(dims[knob] for knob in self.knobs) >= WEIGHT_LIMIT:
            raise Unlisted
        self.looked_at = 0
        listed = [self._listed(case) for case in _cases_of_all(constraints)]
        self._cells = np.sort(np.concatenate([np.empty(0, dtype=np.int64), *listed]))
        weights = self._weights([slice(0, dims[knob]) for knob in self.knobs])
        self._cumulative = np.cumsum(weights)
        self.total = int(weights.sum())

    def count(self, ranges: Sequence[slice]) -> int:
        """Count the allowed combinations with each digit in its range, knob by knob."""
        return int(self._weights(ranges).sum())

    def digits(self, ranks: IntArray) -> IntArray:
        """Return the digits of its knobs for each rank, one row a rank."""
        rows, rest = find(self._cumulative, ranks)
        digits = np.empty((len(ranks), len(self.knobs)), dtype=np.int64)
        for column, codes in self._codes(self._cells[rows]):
            digits[:, column], rest = self._classes.digits(column, codes, rest)
        return digits

    def _codes(self, cells: IntArray) -> Iterator[tuple[int, IntArray]]:
        """Yield the class of each knob in each of some cells; the last knob first."""
        for column, size in reversed(list(enumerate(self._classes.shape))):
            yield column, cells % size
            cells = cells // size

    def _weights(self, ranges: Sequence[slice]) -> IntArray:
        """Return how many combinations of digits of a range each cell has."""
        weights, sizes = np.ones(len(self._cells), dtype=np.int64), self._classes.sizes(ranges)
        for column, codes in self._codes(self._cells):
            weights *= sizes[column][codes]
        return weights

    def _listed(self, case: Case) -> IntArray:
        """Return the cells of the points of a case."""
        allowed = {
            knob: np.flatnonzero(
                case.allowed[knob][members] if knob in case.allowed else members >= 0
            )
            for knob, members in self._members.items()
        }
        chosen: dict[int, IntArray] = {}
        left, rows = list(case.conditions.values()), 1
        most = min(self.looked_at + MOST_OF_CASE, MOST)
        reads = [symbol.knobs for symbol, _ in left]
        for knob in order_of(reads, {knob: len(codes) for knob, codes in allowed.items()}):
            codes, now = allowed[knob], chosen.keys() | {knob}
            self.looked_at += rows * len(codes)
            if self.looked_at > most:
                raise Unlisted
            holds = self._holds([c for c in left if c[0].knobs <= now], chosen, knob, codes)
            left = [c for c in left if not c[0].knobs <= now]
            row, column = np.nonzero(np.broadcast_to(holds, (rows, len(codes))))
            chosen = {other: known[row] for other, known in chosen.items()}
            chosen[knob], rows = codes[column], len(row)
        return np.ravel_multi_index([chosen[knob] for knob in self.knobs], self._classes.shape)

    def _holds(
        self,
        conditions: Sequence[Condition],
        chosen: dict[int, IntArray],
        knob: int,
        codes: IntArray,
    ) -> BoolArray:
        """Return whether conditions hold for each choice so far (rows) with each class of a knob.

        What depends on the choices so far alone, or on the class, is computed once for each.
        """
        members = self._members
        digits = {other: members[other][known][:, None] for other, known in chosen.items()}
        digits[knob] = members[knob][codes][None, :]
        values: dict[int, Values] = {}
        holds = np.ones((1, 1), dtype=np.bool_)
        for symbol, truth in conditions:
            holds = holds & ((symbol.evaluate(digits, values) != 0) == truth)
        return holds


def listed(
    constraints: Sequence[Constraint], checks: Sequence[Constraint], dims: Sequence[int]
) -> tuple[list[Constraint], list[Listing]]:
    """List what is few of the knobs that checks tie together.

    Returns:
        The constraints that are in no list, and the lists.
    """
    left, listings = list[Constraint](), list[Listing]()
    for group in connected(constraints):
        try:
            if not any(check in group for check in checks):
                raise Unlisted
            listings.append(Listing(group, dims))
        except Unlisted:
            left += group
    return left, listings


def _cases_of_all(constraints: Sequence[Constraint]) -> list[Case]:
    """Return cases of which each point that all constraints accept is in one."""
    together = [Case()]
    for constraint in constraints:
        if not isinstance(constraint, TracedConstraint) or may_divide_by_zero(constraint.tree):
            raise Unlisted
        cases = list(islice(cases_of(constraint.tree), MOST_CASES + 1))
        together = [one.also(other) for one in together for other in cases]
        together = [case for case in together if not case.is_empty]
        if max(len(cases), len(together)) > MOST_CASES:
            raise Unlisted
    return together
