"""Coordinate descent: from the best point, one knob a step."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

import numpy as np

from autotune.errors import TunerError
from autotune.measure import MeasureInput, MeasureResult
from autotune.task import ConfigEntity, Task
from autotune.task.constraints.radix import IntArray
from autotune.tuner.point_tuner import PointTuner, valid_rows


class DropletTuner(PointTuner):
    """Tries the points one step away from the best in each knob, and moves to a faster one.

    When no step of length 1 is faster it tries longer ones; when none is left, or nothing around
    it runs, it starts again from a random point. Times must differ significantly to count as
    faster: by Welch's test where both were measured at least three times.

    Args:
        task: what is tuned.
        start_position: the digit of each knob to start from; a random valid point by default.
        pvalue: largest chance of a difference being noise.
        seed: of random choices.
    """

    def __init__(
        self,
        task: Task,
        start_position: Sequence[int] | None = None,
        pvalue: float = 0.05,
        seed: int | None = None,
    ) -> None:
        super().__init__(task, seed)
        self.pvalue = pvalue
        self._here: tuple[IntArray, MeasureResult] | None = None
        self._step = 0
        self._queue: list[int] = []
        if start_position is not None:
            self._queue = [self._start(start_position)]

    @property
    def best_choice(self) -> tuple[int, list[int], list[float]]:
        """The index, the digits and the costs of the point that it looks around from.

        Before there is one: -1, zeros, and a cost beyond all others, as in AutoTVM.
        """
        if self._here is None:
            return -1, [0] * len(self.space.dims), [1e9]
        digits, result = self._here
        return int(self.space.knob2point(digits.tolist())), digits.tolist(), list(result.costs)

    def _start(self, position: Sequence[int]) -> int:
        dims = self.space.dims
        fits = len(position) == len(dims) and all(
            0 <= d < n for d, n in zip(position, dims, strict=True)
        )
        index = self.space.knob2point(position) if fits else -1
        if not self.space.is_index_valid(index):
            raise TunerError(
                f"DropletTuner: start_position must be one digit for each of {self.space.names}, "
                f"below {dims}, and pass the filters; got {list(position)}"
            )
        return index

    def propose(self, n: int) -> Iterable[int]:
        """Return untried points around the best, or a random point if there are none."""
        while len(self._queue) < n and self._here is not None:
            self._step += 1
            if self._step >= max(self.space.dims):
                self._here = None  # nothing around it is faster: leave it
                break
            self._queue += self._around(self._here[0], self._step)
        if not self._queue:
            self._queue = [int(i) for i in self.space.sample(1, self.rng, self.visited)]
        batch, self._queue = self._queue[:n], self._queue[n:]
        return batch

    def _around(self, digits: IntArray, step: int) -> list[int]:
        knobs = len(digits)
        moves = np.concatenate([np.eye(knobs, dtype=np.int64), -np.eye(knobs, dtype=np.int64)])
        rows = digits + step * moves
        inside = ((rows >= 0) & (rows < np.array(self.space.dims))).all(axis=1)
        near = valid_rows(self.space, rows[inside])
        return [int(i) for i in self.rng.permutation(near) if int(i) not in self.visited]

    def update(self, inputs: Sequence[MeasureInput], results: Sequence[MeasureResult]) -> None:
        """Move to what is faster."""
        super().update(inputs, results)
        for inp, res in zip(inputs, results, strict=True):
            if res.ok and (self._here is None or self._faster(res, self._here[1])):
                self._here = (self.space.knobs([ConfigEntity.of(inp.config).index])[0], res)
                self._queue, self._step = [], 0

    def _faster(self, result: MeasureResult, than: MeasureResult) -> bool:
        if result.seconds >= than.seconds:
            return False
        ours, theirs = _samples(result), _samples(than)
        if min(ours[2], theirs[2]) < 3 or ours[1] == theirs[1] == 0:
            return True
        return _welch(ours, theirs) < self.pvalue


def _samples(result: MeasureResult) -> tuple[float, float, int]:
    """Return the middle of the samples, their standard deviation and how many there were.

    What was measured here keeps these beside the costs; elsewhere the costs are all there is.
    """
    count = result.evidence.samples
    if result.spread is not None and isinstance(count, int):
        return result.seconds, result.spread * result.seconds, count
    few = len(result.costs) < 2
    return result.mean, 0.0 if few else float(np.std(result.costs, ddof=1)), len(result.costs)


def _welch(left: tuple[float, float, int], right: tuple[float, float, int]) -> float:
    """Return the chance that samples differ so much by accident, by Welch's t-test.

    Two-sided, as `scipy.stats.ttest_ind_from_stats`, whose import takes half a second.

    Args:
        left: mean, standard deviation, and number of samples.
        right: the same.
    """
    errors = [deviation**2 / count for _, deviation, count in (left, right)]
    parts = [e**2 / (n - 1) for e, n in zip(errors, (left[2], right[2]), strict=True)]
    t = abs(left[0] - right[0]) / math.sqrt(sum(errors))
    from scipy.special import stdtr  # takes half a second to load

    return float(2 * stdtr(sum(errors) ** 2 / sum(parts), -t))
