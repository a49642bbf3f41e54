"""Knobs that constraints tie together, as one table of which combinations are allowed."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import count
from math import prod

import numpy as np

from autotune.task.constraints.classes import Classes, find
from autotune.task.constraints.constraint import BoolArray, Constraint
from autotune.task.constraints.radix import WEIGHT_LIMIT, IntArray

# Largest joint table, in cells, that is made without need, and where draws would be refused too
# often without it: some ten milliseconds, and a fraction of a second. It never exists as a whole,
# ...
QUICK_JOINT, JOINT_LIMIT = 1 << 18, 1 << 25
# Largest joint table that is gone through only to count: about a second.
COUNT_LIMIT = 1 << 27
# ... only in slices of at most this size (8 MB), of which some are kept.
SLICE_LIMIT = 1 << 20
KEPT_CELLS = 1 << 21


class Component:
    """The joint table of constraints that share knobs.

    Digits that no constraint of the component tells apart form a class; a cell is a combination
    of classes, and its weight the number of combinations of digits in it. Ranks 0 to `total`
    enumerate the allowed combinations of digits. The table is made slice by slice along the knobs
    with most classes, so that its size is bounded by time rather than memory.

    Attributes:
        knobs: positions of its knobs; those that are sliced come first.
        total: number of allowed combinations of digits.
    """

    def __init__(self, constraints: Sequence[Constraint], dims: Sequence[int]) -> None:
        self._classes = Classes(constraints)
        self.knobs, self._shape = self._classes.knobs, self._classes.shape
        # How many of the first axes are fixed in a slice.
        self._fixed = next(n for n in count() if prod(self._shape[n:]) <= SLICE_LIMIT)
        self._outers = list(np.ndindex(*self._shape[: self._fixed]))
        self._tables = _by_last_axis(
            [self._spread(constraint) for constraint in constraints], len(self.knobs)
        )
        self._slices: dict[int, IntArray] = {}
        everything = [slice(0, dims[knob]) for knob in self.knobs]
        self._sizes = self._classes.sizes(everything)
        self._cumulative = np.cumsum(self._totals(everything))
        self.total = int(self._cumulative[-1])

    def count(self, ranges: Sequence[slice]) -> int:
        """Count the allowed combinations with each digit in its range, knob by knob."""
        return int(self._totals(ranges).sum())

    def digits(self, ranks: IntArray) -> IntArray:
        """Return the digits of its knobs for each rank, one row a rank."""
        outer, rest = find(self._cumulative, ranks)
        digits = np.empty((len(ranks), len(self.knobs)), dtype=np.int64)
        sliced = self._shape[: self._fixed]
        fixed = np.unravel_index(outer, sliced) if sliced else ()
        for column, codes in enumerate(fixed):
            digits[:, column], rest = self._classes.digits(column, codes, rest)
        cells = np.zeros(len(ranks), dtype=np.int64)
        for one in np.unique(outer).tolist():
            rows = np.flatnonzero(outer == one)
            cells[rows], rest[rows] = find(self._slice(one), rest[rows])
        for column in reversed(range(self._fixed, len(self.knobs))):
            codes = cells % self._shape[column]
            cells //= self._shape[column]
            digits[:, column], rest = self._classes.digits(column, codes, rest)
        return digits

    def _slice(self, outer: int) -> IntArray:
        """Return the cumulative weights of the cells of one slice."""
        if outer not in self._slices:
            weights = _outer_product(self._sizes[self._fixed :])
            if (len(self._slices) + 1) * weights.size > KEPT_CELLS:
                self._slices.clear()
            allowed = self._allow(self._outers[outer])
            self._slices[outer] = np.cumsum(np.where(allowed, weights, 0).reshape(-1))
        return self._slices[outer]

    def _totals(self, ranges: Sequence[slice]) -> IntArray:
        """Return the weight of every slice, with each digit in its range."""
        sizes = self._classes.sizes(ranges)
        weights = _outer_product(sizes[self._fixed :])
        alike = bool((weights == 1).all())
        times = _outer_product(sizes[: self._fixed]).reshape(-1)
        totals = np.zeros(len(times), dtype=np.int64)
        for outer in np.flatnonzero(times).tolist():
            allowed = self._allow(self._outers[outer])
            totals[outer] = np.count_nonzero(allowed) if alike else np.sum(weights, where=allowed)
        return np.asarray(totals * times)

    def _allow(self, outer: tuple[int, ...]) -> BoolArray:
        """Return which cells of one slice all constraints accept.

        The slice grows axis by axis, so that a constraint is applied while it is small.
        """
        allowed = np.ones((), dtype=np.bool_)
        for axis, tables in enumerate(self._tables):
            if axis >= self._fixed:
                shape = (*allowed.shape, self._shape[axis])
                allowed = np.broadcast_to(allowed[..., None], shape).copy()
            for table in tables:
                fixed = tuple(min(i, n - 1) for i, n in zip(outer, table.shape, strict=False))
                allowed &= table[fixed].reshape(table.shape[self._fixed : axis + 1])
        return allowed

    def _spread(self, constraint: Constraint) -> BoolArray:
        """Return a constraint's table over the classes here; axes it lacks have size 1."""
        assert constraint.table is not None
        members = self._classes.members
        own = dict(zip(constraint.knobs, constraint.classes, strict=True))
        maps = [classes[members[self.knobs.index(knob)]] for knob, classes in own.items()]
        order = [constraint.knobs.index(knob) for knob in self.knobs if knob in own]
        shape = [n if k in own else 1 for k, n in zip(self.knobs, self._shape, strict=True)]
        return np.asarray(constraint.table[np.ix_(*maps)].transpose(order).reshape(shape))


def group_by_knobs(
    constraints: Sequence[Constraint], dims: Sequence[int], limit: int = JOINT_LIMIT
) -> tuple[list[list[Constraint]], list[Constraint]]:
    """Group constraints that share knobs; return the groups, and those that fit in none.

    No group's joint table has more than ``limit`` cells.

    The most selective are taken first, so that the ones left over reject little.
    """
    groups: list[list[Constraint]] = []
    left = [c for c in constraints if c.table is None]
    tabled = [(float(c.table.mean()), c) for c in constraints if c.table is not None]
    for _, constraint in sorted(tabled, key=lambda pair: pair[0]):
        touching = [g for g in groups if any(set(o.knobs) & set(constraint.knobs) for o in g)]
        merged = [constraint, *(other for group in touching for other in group)]
        if not _joinable(merged, dims, limit):
            left.append(constraint)
            continue
        groups = [g for g in groups if g not in touching] + [merged]
    return groups, left


def _joinable(constraints: Sequence[Constraint], dims: Sequence[int], limit: int) -> bool:
    """Return whether these constraints can be one component."""
    classes = Classes(constraints)
    weight = prod(dims[knob] for knob in classes.knobs)
    return prod(classes.shape) <= limit and weight < WEIGHT_LIMIT


def _by_last_axis(tables: Sequence[BoolArray], axes: int) -> list[list[BoolArray]]:
    """Group tables by the last axis along which they differ."""
    groups: list[list[BoolArray]] = [[] for _ in range(axes)]
    for table in tables:
        groups[max((i for i, n in enumerate(table.shape) if n > 1), default=0)].append(table)
    return groups


def _outer_product(vectors: Sequence[IntArray]) -> IntArray:
    """Return the product of one element of each vector, one axis a vector."""
    result = np.ones((), dtype=np.int64)
    for vector in vectors:
        result = result[..., None] * vector
    return result
