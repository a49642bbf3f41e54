"""The base of tuners of spaces: proposes indices, and none of them twice."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np
import numpy.typing as npt

from autotune.errors import TunerError
from autotune.measure import MeasureErrorNo, MeasureInput, MeasureResult
from autotune.task import ConfigEntity, ConfigSpace, Task
from autotune.task.constraints.radix import IndexArray, IntArray
from autotune.tuner.tuner import Tuner
from autotune.utils.check import Check

FloatArray = npt.NDArray[np.float64]


class PointTuner(Tuner):
    """Base of the strategies here: `propose` gives indices, `learn` gets rates.

    What `propose` repeats is dropped, and what it leaves open is filled with random points, so a
    strategy need not care about the end of a space.

    Attributes:
        visited: indices proposed or measured so far.
    """

    task: Task

    def __init__(self, task: Task, seed: int | None = None) -> None:
        super().__init__(task, seed)
        if "config_space" not in dir(task):
            Check(TunerError, type(self).__name__).refuse("task", "a task with a space", task)
        self.visited: set[int] = set()
        self._exhausted = False

    def propose(self, n: int) -> Iterable[int]:
        """Return up to ``n`` valid indices to try next, best first."""
        raise NotImplementedError(f"{type(self).__name__} must define propose(n)")

    def learn(self, indices: Sequence[int], rates: FloatArray) -> None:
        """Record measured points: 1 / seconds, 0 for a failure."""

    def refuse(self, indices: Sequence[int]) -> None:
        """Record points that were no trials, because they cannot run.

        Here they are learned as failures.
        """
        self.learn(indices, np.zeros(len(indices)))

    def has_next(self) -> bool:
        """Return whether a valid point may be left that was not proposed."""
        if self.space.has_at_most(len(self.visited)):
            self._exhausted = True
        return not self._exhausted

    def count_left(self, most: int) -> int | None:
        """Return how many valid points were not proposed; None if more than ``most``."""
        if not self.has_next():
            return 0
        known = self.space.has_at_most(len(self.visited) + most)
        return self.space.rough_count - len(self.visited) if known else None

    def next_batch(self, batch_size: int) -> list[ConfigEntity]:
        """Propose up to ``batch_size`` new configurations; fewer only when no more are left."""
        if not self.has_next():
            return []
        chosen: list[int] = []
        for index in map(int, self.propose(batch_size)):
            if index not in self.visited and len(chosen) < batch_size:
                self.visited.add(index)
                chosen.append(index)
        if len(chosen) < batch_size:
            chosen += self._fill(batch_size - len(chosen))
        self._exhausted = self._exhausted or len(chosen) < batch_size
        return [self.space.get(index) for index in chosen]

    def _fill(self, n: int) -> list[int]:
        drawn = [int(i) for i in self.space.sample(n, self.rng, self.visited)]
        self.visited.update(drawn)
        return drawn

    def update(self, inputs: Sequence[MeasureInput], results: Sequence[MeasureResult]) -> None:
        """Learn from measured trials."""
        tried: dict[int, float] = {}
        refused: list[int] = []
        for inp, r in zip(inputs, results, strict=True):
            index = int(ConfigEntity.of(inp.config).index)
            self.visited.add(index)
            if r.error_no == MeasureErrorNo.INSTANTIATION_ERROR:
                refused.append(index)
            else:
                tried[index] = 1.0 / r.seconds if r.ok and r.seconds > 0 else 0.0
        if refused:
            self.refuse(refused)
        if tried or not refused:
            self.learn(list(tried), np.array(list(tried.values())))


def valid_rows(space: ConfigSpace, digits: IntArray) -> IndexArray:
    """Return the indices of those rows of digits that are valid, in order."""
    indices = space.indices(digits)
    return indices[space.is_valid(indices)]
