"""Equivalence classes of values of knobs that no constraint distinguishes."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property

import numpy as np

from autotune.task.constraints.constraint import Constraint, refine
from autotune.task.constraints.radix import IntArray


class Classes:
    """The classes of the knobs that constraints read; the knob with most classes first.

    A cell is a combination of classes, and its weight the number of combinations of digits in it.

    Attributes:
        knobs: positions of the knobs.
        shape: how many classes each has.
        members: for each, a digit of every class.
    """

    def __init__(self, constraints: Sequence[Constraint]) -> None:
        codes: dict[int, list[IntArray]] = {}
        for constraint in constraints:
            for knob, classes in zip(constraint.knobs, constraint.classes, strict=True):
                codes.setdefault(knob, []).append(classes)
        refined = {knob: refine(codes[knob]) for knob in sorted(codes)}
        self.knobs = sorted(refined, key=lambda knob: -len(refined[knob][1]))
        self._classes = [refined[knob][0] for knob in self.knobs]
        self.members = [refined[knob][1] for knob in self.knobs]
        self.shape = [len(members) for members in self.members]

    @cached_property
    def _sorted(self) -> list[tuple[IntArray, IntArray, IntArray]]:
        """For each knob, the digits class by class, where each class starts, and its size."""
        sizes = self.sizes([slice(None)] * len(self.knobs))
        return [
            (np.argsort(classes, kind="stable"), np.cumsum(size) - size, size)
            for classes, size in zip(self._classes, sizes, strict=True)
        ]

    def sizes(self, ranges: Sequence[slice]) -> list[IntArray]:
        """Return, for each knob, how many digits of a range each class has."""
        return [
            np.bincount(classes[span], minlength=n)
            for classes, span, n in zip(self._classes, ranges, self.shape, strict=True)
        ]

    def digits(self, column: int, codes: IntArray, ranks: IntArray) -> tuple[IntArray, IntArray]:
        """Choose a digit of each class by a rank, and return the remainder of the rank."""
        order, starts, sizes = self._sorted[column]
        size = sizes[codes]
        return order[starts[codes] + ranks % size], ranks // size


def find(cumulative: IntArray, ranks: IntArray) -> tuple[IntArray, IntArray]:
    """Return the interval each rank falls in, and its rank within."""
    at = np.searchsorted(cumulative, ranks, side="right")
    before = np.where(at > 0, cumulative[at - 1], 0)
    return at, np.asarray(ranks - before)
