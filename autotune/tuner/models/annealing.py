"""Simulated annealing on a model, many chains at a time, in numpy."""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from autotune.task import ConfigSpace
from autotune.task.constraints.radix import IndexArray, IntArray

FloatArray = npt.NDArray[np.float64]
# Scores of indices; larger is better.
Score = Callable[[IndexArray], FloatArray]


@dataclass(frozen=True)
class CoolingSchedule:
    """The length and the temperatures of annealing.

    Attributes:
        steps: most moves of each chain.
        hot, cold: temperatures at the first and at the last step, in units of the spread of the
            scores where the chains start.
        patience: steps without a change among the best before it stops; None to go on.
    """

    steps: int
    hot: float = 1.0
    cold: float = 0.0
    patience: int | None = 50


class Best:
    """The best distinct indices seen, apart from excluded ones."""

    def __init__(self, size: int, exclude: Collection[int]) -> None:
        self.size = size
        self._exclude = exclude
        self._scores: dict[int, float] = {}
        self._floor = -np.inf

    def add(self, indices: IndexArray, scores: FloatArray) -> bool:
        """Offer points; return whether any was kept."""
        promising = np.flatnonzero(scores > self._floor)
        kept = False
        for index, score in zip(
            indices[promising].tolist(), scores[promising].tolist(), strict=True
        ):
            if index not in self._scores and index not in self._exclude:
                self._scores[index] = score
                kept = True
        if len(self._scores) > 2 * self.size:
            self._cut()
        return kept

    def _cut(self) -> None:
        order = sorted(self._scores, key=lambda i: (-self._scores[i], i))[: self.size]
        self._scores = {index: self._scores[index] for index in order}
        if len(order) == self.size:
            self._floor = self._scores[order[-1]]

    def take(self) -> list[int]:
        """Return the best, best first."""
        self._cut()
        return list(self._scores)


def anneal(
    space: ConfigSpace,
    score: Score,
    start: IntArray,
    schedule: CoolingSchedule,
    best: Best,
    rng: np.random.Generator,
) -> IntArray:
    """Anneal from ``start``, one row of digits per chain, and collect points in ``best``.

    Each step changes one random knob of each chain; a chain whose new point is invalid does not
    move. Returns the final points of the chains.
    """
    dims = np.array(space.dims)
    movable = np.flatnonzero(dims > 1)
    indices = space.indices(start)
    scores = score(indices)
    best.add(indices, scores)
    if not len(movable):
        return start
    digits: IntArray = start.copy()
    rows = np.arange(len(start))
    idle, unit = 0, float(np.std(scores)) or 1.0
    for step in range(schedule.steps):
        knob = movable[rng.integers(len(movable), size=len(rows))]
        moved = digits.copy()
        shift = 1 + (rng.random(len(rows)) * (dims[knob] - 1)).astype(np.int64)
        moved[rows, knob] = (digits[rows, knob] + shift) % dims[knob]
        indices = space.indices(moved)
        reached = score(indices)
        heat = unit * _temperature(schedule, step) + 1e-5 * unit
        chance = np.exp(np.minimum((reached - scores) / heat, 0.0))
        valid = space.is_valid(indices) if space.has_constraints else np.ones(len(rows), bool)
        taken = valid & (rng.random(len(rows)) < chance)
        digits[taken] = moved[taken]
        scores = np.where(taken, reached, scores)
        idle = 0 if best.add(indices[valid], reached[valid]) else idle + 1
        if schedule.patience is not None and idle >= schedule.patience:
            break
    return digits


def _temperature(schedule: CoolingSchedule, step: int) -> float:
    left = 1.0 - step / max(1, schedule.steps)
    return schedule.cold + (schedule.hot - schedule.cold) * left
