"""The choice of the candidates that a model scores: all of a small space, else a sample."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from contextlib import suppress
from typing import Protocol

import numpy as np

from autotune.cost_model import PredictionRows, Trees
from autotune.errors import SpaceError
from autotune.features import KnobFeatures
from autotune.task import ConfigSpace, Task
from autotune.task.constraints.radix import IndexArray
from autotune.task.dispatcher import provided
from autotune.tuner.models.annealing import Best, CoolingSchedule, anneal

# Spaces of up to this many valid points are scored whole.
ENUMERABLE = 200_000
# Random points among which those far from each other are chosen.
DRAWN = 600
# Annealing over a larger space: chains and steps for one set of candidates.
CHAINS, STEPS = 96, 80


class Candidates(Protocol):
    """Chooses what to score closely; a few thousand points at a time."""

    def choose(
        self, trees: Trees, visited: Collection[int], best: Sequence[int], n: int
    ) -> IndexArray:
        """Return about ``n`` valid points not visited: promising ones, and random ones.

        Args:
            trees: rank points roughly.
            visited: indices not to return.
            best: fastest points measured, fastest first.
            n: how many.
        """


class AllPoints:
    """Every valid point of a small space is scored by the trees.

    Args:
        space: of at most `ENUMERABLE` valid points.
        features: of its points.
        rng: chooses the random half.
    """

    def __init__(
        self, space: ConfigSpace, features: KnobFeatures, rng: np.random.Generator
    ) -> None:
        self._rng = rng
        self._points = np.sort(space.sample(space.valid_count, rng))
        self._features = features
        self._pool: PredictionRows | None = None

    def choose(
        self, trees: Trees, visited: Collection[int], best: Sequence[int], n: int
    ) -> IndexArray:
        """Return the better half by trees of all points left, and as many random ones."""
        left = np.setdiff1d(
            np.arange(len(self._points)),
            np.searchsorted(self._points, np.array(sorted(visited), dtype=self._points.dtype)),
        )
        if len(left) <= n:
            return np.asarray(self._points[left])
        if self._pool is None:
            self._pool = PredictionRows(self._features.trees(self._points))
        ranks = np.argpartition(-trees.predict(self._pool)[left], n // 2)
        others = self._rng.choice(ranks[n // 2 :], n - n // 2, replace=False)
        return np.asarray(self._points[left[np.concatenate([ranks[: n // 2], others])]])


class DrawnPoints:
    """Points of a space too large to enumerate: annealed on the trees from good places.

    Chains start from the best measured points, from the ends of the last walk and from random
    points. What they find best is joined by random points.

    Args:
        space: any space.
        features: of its points.
        rng: draws and walks.
    """

    def __init__(
        self, space: ConfigSpace, features: KnobFeatures, rng: np.random.Generator
    ) -> None:
        self._space, self._features, self._rng = space, features, rng
        self._ends = np.empty((0, len(space.dims)), dtype=np.int64)

    def choose(
        self, trees: Trees, visited: Collection[int], best: Sequence[int], n: int
    ) -> IndexArray:
        """Return the best points of a walk, and as many random ones."""
        space, rng = self._space, self._rng
        fresh = space.sample(max(n // 2, CHAINS), rng, visited)
        starts = [space.knobs(best[: CHAINS // 4]), self._ends[: CHAINS // 4], space.knobs(fresh)]
        rows = np.concatenate(starts)[:CHAINS]
        found = Best(n // 2, visited)
        ends = anneal(
            space,
            lambda indices: trees.predict(self._features.trees(indices)),
            rows,
            CoolingSchedule(STEPS, hot=0.5, patience=None),
            found,
            rng,
        )
        self._ends = ends[rng.permutation(len(ends))]
        chosen = dict.fromkeys([*found.take(), *fresh[: n // 2].tolist()])
        return np.array(list(chosen), dtype=fresh.dtype)


def untuned(task: Task) -> list[int]:
    """Return the points that a template runs with where nothing was tuned, and what it suggests.

    They are what a pack has for the task, the template's own choice, and, where a space has
    several families of kernels, the choices of the other ones.
    """
    found = [task.default(), *task.suggested()]
    packed = provided(task.target, task.workload)
    if packed is not None:
        with suppress(SpaceError):  # a record of an older space
            found.insert(0, task.own(packed))
    return list(dict.fromkeys(int(each.index) for each in found if each is not None))


def far_points(
    space: ConfigSpace,
    features: KnobFeatures,
    rng: np.random.Generator,
    n: int,
    visited: Collection[int],
) -> list[int]:
    """Return up to ``n`` valid points far from each other and from those visited.

    They tell a model more than as many random ones, which leave corners unseen; the best
    configurations have several knobs at the end of their range more often than not.
    """
    drawn = space.sample(max(DRAWN, n), rng, visited)
    if not len(drawn):
        return []
    places = features.smooth(drawn)
    known = features.smooth(sorted(visited)) if visited else places[:0]
    gaps = np.full(len(drawn), np.inf)
    for place in known:
        gaps = np.minimum(gaps, ((places - place) ** 2).sum(axis=1))
    chosen = []
    for _ in range(min(n, len(drawn))):
        at = int(np.argmax(gaps))
        chosen.append(int(drawn[at]))
        gaps = np.minimum(gaps, ((places - places[at]) ** 2).sum(axis=1))
        gaps[at] = -1.0
    return chosen


def candidates_of(
    space: ConfigSpace, features: KnobFeatures, rng: np.random.Generator
) -> Candidates:
    """Return the way of choosing that fits the size of a space."""
    return (AllPoints if space.has_at_most(ENUMERABLE) else DrawnPoints)(space, features, rng)
