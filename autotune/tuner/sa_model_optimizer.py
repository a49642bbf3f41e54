"""AutoTVM's model optimiser: simulated annealing with many chains."""

from __future__ import annotations

import logging
from collections.abc import Collection, Sequence

import numpy as np

from autotune.cost_model import one_thread
from autotune.task import Task
from autotune.task.constraints.radix import IntArray
from autotune.tuner.model_based_tuner import CostModel, ModelOptimizer
from autotune.tuner.models.annealing import Best, CoolingSchedule, anneal

logger = logging.getLogger("autotvm")


class SimulatedAnnealingOptimizer(ModelOptimizer):
    """Walks over a space with many chains at once, and keeps the best points it sees.

    Args:
        task: whose space is searched.
        n_iter: steps of each chain.
        temp: first and last temperature, or one for all steps.
        persistent: whether the next search starts where this one ended.
        parallel_size: number of chains.
        early_stop: steps without a change among the best before it stops.
        log_interval: accepted for AutoTVM scripts; one line is logged a search.
        seed: of random choices.
    """

    def __init__(
        self,
        task: Task,
        n_iter: int = 500,
        temp: float | Sequence[float] = (1, 0),
        persistent: bool = True,
        parallel_size: int = 128,
        early_stop: int | None = 50,
        log_interval: int = 50,
        seed: int | None = None,
    ) -> None:
        self.task, self.persistent, self.parallel_size = task, persistent, parallel_size
        hot, cold = (temp, temp) if isinstance(temp, (int, float)) else (temp[0], temp[-1])
        self._schedule = CoolingSchedule(n_iter, float(hot), float(cold), early_stop)
        self._rng = np.random.default_rng(seed)
        self._points: IntArray | None = None

    def find_maximums(self, model: CostModel, num: int, exclusive: Collection[int]) -> list[int]:
        """Return up to ``num`` indices with high scores, best first, none of ``exclusive``."""
        space = self.task.config_space
        if self._points is None or not self.persistent:
            drawn = space.sample(self.parallel_size, self._rng)
            self._points = space.knobs(np.resize(drawn, self.parallel_size))
        best = Best(num, exclusive)
        with one_thread():
            self._points = anneal(
                space, model.predict, self._points, self._schedule, best, self._rng
            )
        found = best.take()
        logger.debug("SA: %d points found on a model of %s", len(found), self.task.name)
        return found
