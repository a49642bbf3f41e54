"""A genetic algorithm on knobs."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np

from autotune.errors import TunerError
from autotune.task import Task
from autotune.task.constraints.radix import IntArray
from autotune.tuner.point_tuner import FloatArray, PointTuner, valid_rows
from autotune.utils.check import Check

# Rounds of breeding before random points fill what is missing.
PATIENCE = 20


class GATuner(PointTuner):
    """Crosses and mutates the fastest configurations.

    A generation is `pop_size` new points. Their parents are drawn from the generation before and
    the `elite_num` best of all, with probability proportional to their rate.

    Args:
        task: the task to be tuned.
        pop_size: number of points of a generation.
        elite_num: number of best points that remain parents.
        mutation_prob: probability that a knob of a child gets a random value.
        seed: seed of random choices.
    """

    def __init__(
        self,
        task: Task,
        pop_size: int = 100,
        elite_num: int = 3,
        mutation_prob: float = 0.1,
        seed: int | None = None,
    ) -> None:
        super().__init__(task, seed)
        check = Check(TunerError, "GATuner")
        check.whole("pop_size", pop_size, least=2)
        check.whole("elite_num", elite_num, least=0, most=pop_size)
        check.number("mutation_prob", mutation_prob, least=0, most=1)
        self.pop_size, self.elite_num, self.mutation_prob = pop_size, elite_num, mutation_prob
        self._queue: list[int] = []
        self._generation: dict[int, float] = {}
        self._elites: dict[int, float] = {}

    @property
    def genes(self) -> list[list[int]]:
        """The digits of each knob, of the points that parents are drawn from."""
        return self._digits(self._generation)

    @property
    def scores(self) -> list[float]:
        """The rates of `genes`: 1 / seconds, 0 for a failure."""
        return list(self._generation.values())

    @property
    def elites(self) -> list[list[int]]:
        """The digits of the best points of all."""
        return self._digits(self._elites)

    @property
    def elite_scores(self) -> list[float]:
        """The rates of `elites`."""
        return list(self._elites.values())

    def _digits(self, points: Iterable[int]) -> list[list[int]]:
        indices = list(points)
        return self.space.knobs(indices).tolist() if indices else []

    def propose(self, n: int) -> Iterable[int]:
        """Return the next points of the generation."""
        while len(self._queue) < n:
            bred = self._breed(self.pop_size)
            if not bred:
                break
            self._queue += bred
        batch, self._queue = self._queue[:n], self._queue[n:]
        return batch

    def learn(self, indices: Sequence[int], rates: FloatArray) -> None:
        """Count the points as parents; keep the elites."""
        for index, rate in zip(indices, rates.tolist(), strict=True):
            self._generation[index] = rate
            self._elites[index] = rate
        best = sorted(self._elites, key=lambda i: (-self._elites[i], i))[: self.elite_num]
        self._elites = {index: self._elites[index] for index in best}
        for index in list(self._generation)[: -self.pop_size]:
            del self._generation[index]

    def refuse(self, indices: Sequence[int]) -> None:
        """Leave the generation unchanged: points that cannot run do not become parents."""

    def _breed(self, n: int) -> list[int]:
        """Return up to ``n`` new points; random ones before anything ran."""
        taken = self.visited | set(self._queue)
        parents = {**self._generation, **self._elites}
        parents = {index: rate for index, rate in parents.items() if rate > 0}
        children: dict[int, None] = {}
        if len(parents) >= 2:
            genes = self.space.knobs(list(parents))
            weights = np.array(list(parents.values()))
            for _ in range(PATIENCE):
                bred = valid_rows(self.space, self._children(genes, weights, n)).tolist()
                children |= dict.fromkeys(i for i in bred if i not in taken)
                if len(children) >= n:
                    break
        found = list(children)[:n]
        if len(found) < n:
            more = self.space.sample(n - len(found), self.rng, taken | set(found))
            found += [int(i) for i in more]
        return found

    def _children(self, genes: IntArray, weights: FloatArray, n: int) -> IntArray:
        """Cross pairs of different parents at one point each, and mutate."""
        rng, knobs = self.rng, genes.shape[1]
        chance = weights / weights.sum()
        first = rng.choice(len(genes), size=n, p=chance)
        second = rng.choice(len(genes), size=n, p=chance)
        second = np.where(second == first, (second + 1) % len(genes), second)
        cut = rng.integers(0, knobs + 1, size=(n, 1))
        children = np.where(np.arange(knobs) < cut, genes[first], genes[second])
        anew = rng.integers(0, np.array(self.space.dims), size=(n, knobs))
        mutated = rng.random((n, knobs)) < self.mutation_prob
        return np.where(mutated, anew, children)
