"""Knobs that constraints tie together, as one table of which combinations are allowed."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from autotune.task.constraint import BoolArray, Constraint, refine
from autotune.task.radix import IntArray
from autotune.utils.math import product

# Largest joint table: 2 M cells of 8 bytes, twice.
JOINT_LIMIT = 1 << 21
# Weights are counted in 64 bits.
WEIGHT_LIMIT = 1 << 62


class Component:
    """The joint table of constraints that share knobs.

    Digits that no constraint of the component tells apart form a class; a cell is a combination
    of classes, and its weight the number of combinations of digits in it. Ranks 0 to `total`
    enumerate the allowed combinations of digits.

    Attributes:
        knobs: positions of its knobs, ascending.
        total: number of allowed combinations of digits.
    """

    def __init__(self, constraints: Sequence[Constraint], dims: Sequence[int]) -> None:
        self.knobs, self._classes, members = _joined(constraints)
        self._shape = tuple(len(m) for m in members)
        allowed = np.ones(self._shape, dtype=np.bool_)
        for constraint in constraints:
            allowed &= self._spread(constraint, members)
        self._allowed = allowed
        self._cumulative = np.cumsum(self._weights([slice(0, dims[k]) for k in self.knobs]))
        self.total = int(self._cumulative[-1])
        self._order = [np.argsort(c, kind="stable") for c in self._classes]
        self._sizes = [
            np.bincount(c, minlength=n) for c, n in zip(self._classes, self._shape, strict=True)
        ]
        self._starts = [np.cumsum(sizes) - sizes for sizes in self._sizes]

    def count(self, ranges: Sequence[slice]) -> int:
        """Count the allowed combinations with each digit in its range, knob by knob."""
        return int(self._weights(ranges).sum())

    def digits(self, ranks: IntArray) -> IntArray:
        """Return the digits of its knobs for each rank, one row a rank."""
        cells = np.searchsorted(self._cumulative, ranks, side="right")
        before = np.where(cells > 0, self._cumulative[cells - 1], 0)
        rest = ranks - before
        digits = np.empty((len(ranks), len(self.knobs)), dtype=np.int64)
        for column, codes in enumerate(np.unravel_index(cells, self._shape)):
            size = self._sizes[column][codes]
            digits[:, column] = self._order[column][self._starts[column][codes] + rest % size]
            rest = rest // size
        return digits

    def _weights(self, ranges: Sequence[slice]) -> IntArray:
        """Return the number of digit combinations of every allowed cell, flat."""
        weights = self._allowed.astype(np.int64)
        for axis, (classes, span) in enumerate(zip(self._classes, ranges, strict=True)):
            sizes = np.bincount(classes[span], minlength=self._shape[axis])
            weights *= sizes.reshape([-1 if i == axis else 1 for i in range(len(self._shape))])
        return weights.reshape(-1)

    def _spread(self, constraint: Constraint, members: Sequence[IntArray]) -> BoolArray:
        """Return the constraint's table over the component's classes."""
        assert constraint.table is not None
        maps = [
            classes[members[self.knobs.index(knob)]]
            for knob, classes in zip(constraint.knobs, constraint.classes, strict=True)
        ]
        shape = [
            n if k in constraint.knobs else 1 for k, n in zip(self.knobs, self._shape, strict=True)
        ]
        return np.asarray(constraint.table[np.ix_(*maps)], dtype=np.bool_).reshape(shape)


def joint_cells(constraints: Sequence[Constraint]) -> int:
    """Return how many cells the joint table of these constraints would have."""
    _, _, members = _joined(constraints)
    return product(len(m) for m in members)


def _joined(constraints: Sequence[Constraint]) -> tuple[list[int], list[IntArray], list[IntArray]]:
    """Return the knobs of all constraints, their common classes, and a member of each class."""
    codes: dict[int, list[IntArray]] = {}
    for constraint in constraints:
        for knob, classes in zip(constraint.knobs, constraint.classes, strict=True):
            codes.setdefault(knob, []).append(classes)
    knobs = sorted(codes)
    refined = [refine(codes[knob]) for knob in knobs]
    return knobs, [classes for classes, _ in refined], [members for _, members in refined]


def joinable(constraints: Sequence[Constraint], dims: Sequence[int]) -> bool:
    """Return whether one table can hold these constraints."""
    knobs = {knob for constraint in constraints for knob in constraint.knobs}
    fits = product(dims[k] for k in knobs) < WEIGHT_LIMIT
    return fits and joint_cells(constraints) <= JOINT_LIMIT


def grouped(
    constraints: Sequence[Constraint], dims: Sequence[int]
) -> tuple[list[list[Constraint]], list[Constraint]]:
    """Group constraints that share knobs; return the groups, and those that fit in none.

    Constraints are taken smallest table first, so that the ones left over are the large ones.
    """
    groups: list[list[Constraint]] = []
    left: list[Constraint] = []
    tabled = [c for c in constraints if c.table is not None]
    for constraint in sorted(tabled, key=lambda c: c.table.size if c.table is not None else 0):
        touching = [g for g in groups if any(set(o.knobs) & set(constraint.knobs) for o in g)]
        merged = [constraint, *(other for group in touching for other in group)]
        if not joinable(merged, dims):
            left.append(constraint)
            continue
        groups = [g for g in groups if g not in touching] + [merged]
    return groups, left + [c for c in constraints if c.table is None]
