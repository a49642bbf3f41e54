"""Simulated annealing on measured times."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from autotune.task import Task
from autotune.tuner.point_tuner import FloatArray, PointTuner


@dataclass
class _Walker:
    """One chain: its present point, and the rate of that point."""

    index: int
    rate: float


class SimulatedAnnealingTuner(PointTuner):
    """Walks from neighbour to neighbour, taking a worse step the more rarely the later it is.

    Each of several walkers has one trial under way at a time. A step that makes a run slower by a
    factor ``f`` is taken with probability ``f ** (-1 / temperature)``.

    Args:
        task: what is tuned.
        walkers: number of chains.
        temperature: at the start; it falls with the number of trials.
        half_life: trials after which the temperature has halved.
        seed: of random choices.
    """

    def __init__(
        self,
        task: Task,
        walkers: int = 4,
        temperature: float = 0.5,
        half_life: int = 50,
        seed: int | None = None,
    ) -> None:
        super().__init__(task, seed)
        self.temperature, self.half_life = temperature, half_life
        self._walkers: list[_Walker | None] = [None] * max(1, walkers)
        self._owner: dict[int, int] = {}
        self._turn = 0
        self._measured = 0

    def propose(self, n: int) -> Iterable[int]:
        """Return a step of each walker in turn."""
        found: list[int] = []
        for _ in range(n):
            number = self._turn % len(self._walkers)
            step = self._step(self._walkers[number], found)
            if step is None:
                break
            self._turn += 1
            self._owner[step] = number
            found.append(step)
        return found

    def _step(self, walker: _Walker | None, taken: list[int]) -> int | None:
        """Return an untried neighbour, or a random point if there is none."""
        if walker is not None:
            near = self.space.neighbours(walker.index).tolist()
            fresh = [i for i in near if i not in self.visited and i not in taken]
            if fresh:
                return int(fresh[self.rng.integers(len(fresh))])
        drawn = self.space.sample(1, self.rng, self.visited | set(taken))
        return int(drawn[0]) if len(drawn) else None

    def learn(self, indices: Sequence[int], rates: FloatArray) -> None:
        """Take or refuse the steps that were measured."""
        for index, rate in zip(indices, rates.tolist(), strict=True):
            self._measured += 1
            number = self._owner.pop(index, self._measured % len(self._walkers))
            walker = self._walkers[number]
            if rate > 0 and (walker is None or self._takes(rate / walker.rate)):
                self._walkers[number] = _Walker(index, rate)

    def refuse(self, indices: Sequence[int]) -> None:
        """Leave the chains at their points and temperatures."""
        for index in indices:
            self._owner.pop(index, None)

    def _takes(self, gain: float) -> bool:
        if gain >= 1:
            return True
        temperature = self.temperature * 0.5 ** (self._measured / self.half_life)
        return bool(self.rng.random() < math.exp(math.log(gain) / max(temperature, 1e-9)))
