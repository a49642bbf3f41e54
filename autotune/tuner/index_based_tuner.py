"""Tuners that ignore what was measured: in order of index, and at random."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from autotune.errors import TunerError
from autotune.task import Task
from autotune.tuner.point_tuner import PointTuner
from autotune.utils.check import Check

# Points drawn at a time; drawing one by one would scan what was visited for each.
DRAW = 1024
# Ranges up to this long are looked through whole.
SCAN = 1 << 20


class IndexBasedTuner(PointTuner):
    """Base of grid and random search.

    Args:
        task: what is tuned.
        range_idx: first and last index that may be proposed, both included.
        seed: of random choices.
    """

    def __init__(
        self, task: Task, range_idx: tuple[int, int] | None = None, seed: int | None = None
    ) -> None:
        super().__init__(task, seed)
        last = self.space.range_length - 1
        first, last = (0, last) if range_idx is None else _range(range_idx, last)
        self.range_idx = (first, last)
        # AutoTVM's names of the same.
        self.begin_idx, self.end_idx, self.index_offset = first, last, first
        self.range_length = last - first + 1
        self._whole = first == 0 and last == self.space.range_length - 1

    def _fill(self, n: int) -> list[int]:
        return []  # outside of the range nothing may be proposed

    def reset(self) -> None:
        """Start again from the beginning."""
        super().reset()
        self.visited.clear()
        self._exhausted = False


IndexBaseTuner = IndexBasedTuner  # AutoTVM's spelling


def _range(given: object, most: int) -> tuple[int, int]:
    """Return the first and the last index that are meant.

    Raises:
        TunerError: they are no pair of indices in order.
    """
    check = Check(TunerError, "tuner")
    expected = f"first and last index within [0, {most}]"
    pair = check.sequence("range_idx", given, expected)
    if len(pair) != 2:
        check.refuse("range_idx", expected, given)
    first = check.whole("range_idx", pair[0], least=0, most=most)
    return first, check.whole("range_idx", pair[1], least=first, most=most)


class GridSearchTuner(IndexBasedTuner):
    """All valid configurations, in ascending order of index."""

    def __init__(
        self, task: Task, range_idx: tuple[int, int] | None = None, seed: int | None = None
    ) -> None:
        super().__init__(task, range_idx, seed)
        self._position = self.range_idx[0] - 1

    def propose(self, n: int) -> Iterable[int]:
        """Return the next ``n`` indices that were not measured before."""
        found: list[int] = []
        end = self.range_idx[1] + 1
        while len(found) < n:
            following = self._find_next(end)
            if following is None:
                break
            self._position = following
            if following not in self.visited:
                found.append(following)
        return found

    def _find_next(self, end: int) -> int | None:
        start = self._position + 1
        if start < end and self.space.is_index_valid(start):
            return start
        return self.space.get_next_index(start, 1, 0, end) if start < end else None

    def reset(self) -> None:
        """Start again from the first index."""
        super().reset()
        self._position = self.range_idx[0] - 1


class RandomTuner(IndexBasedTuner):
    """Valid configurations at random, none twice."""

    def __init__(
        self, task: Task, range_idx: tuple[int, int] | None = None, seed: int | None = None
    ) -> None:
        super().__init__(task, range_idx, seed)
        self._drawn: list[int] = []

    def propose(self, n: int) -> Iterable[int]:
        """Return ``n`` indices, each of the rest with the same probability."""
        found: list[int] = []
        while len(found) < n:
            if not self._drawn and not self._draw():
                break
            index = self._drawn.pop()
            if index not in self.visited:
                found.append(index)
        return found

    def _draw(self) -> bool:
        if self._whole:
            self._drawn = [int(i) for i in self.space.sample(DRAW, self.rng, self.visited)]
            return bool(self._drawn)
        first, last = self.range_idx
        if last - first < SCAN:
            drawn = self.rng.permutation(np.arange(first, last + 1))
        else:
            drawn = self.rng.integers(first, last + 1, size=SCAN)
        valid = dict.fromkeys(drawn[self.space.is_valid(drawn)].tolist())
        self._drawn = [index for index in valid if index not in self.visited]
        return bool(self._drawn)
