"""How configurations are chosen: Kernel Tuner's strategies, and ours in their place."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass
from numbers import Integral
from typing import Any

from autotune.errors import TunerError
from autotune.task import Task
from autotune.tuner import GATuner, GridSearchTuner, RandomTuner, SimulatedAnnealingTuner, Tuner
from autotune.utils.check import shown

logger = logging.getLogger("autotvm")

# Kernel Tuner's strategies that have a counterpart; `AutoTuner` takes the place of the others.
_TUNERS: Mapping[str, type[Tuner]] = {
    "brute_force": GridSearchTuner,
    "genetic_algorithm": GATuner,
    "random_sample": RandomTuner,
    "simulated_annealing": SimulatedAnnealingTuner,
}
_OTHERS = (
    "basinhopping", "bayes_opt", "bayes_opt_BOTorch", "bayes_opt_old", "diff_evo",
    "dual_annealing", "firefly_algorithm", "greedy_ils", "greedy_mls", "minimize", "mls",
    "ordered_greedy_mls", "pso", "pyatf_strategies", "skopt",
)  # fmt: skip
STRATEGIES = (*_TUNERS, *_OTHERS)


@dataclass(frozen=True)
class Choice:
    """How configurations are chosen.

    Attributes:
        strategy: name of one of Kernel Tuner's; None for all configurations.
        options: of it.
        seed: of random choices.
    """

    strategy: object
    options: Mapping[str, Any]
    seed: int | None

    def tuner(self, task: Task) -> Tuner:
        """Make the tuner.

        Raises:
            TunerError: there is no such strategy.
        """
        name = "brute_force" if self.strategy is None else self.strategy
        if self.strategy is None and "max_fevals" in self.options:
            name = "random_sample"
        if not isinstance(name, str) or name not in STRATEGIES:
            raise TunerError(
                f"strategy: expected one of {', '.join(STRATEGIES)}, got {shown(name)}"
            )
        if name in _TUNERS:
            return _TUNERS[name](task, seed=self.seed)
        from autotune.tuner import AutoTuner

        logger.info("strategy %r is not here: AutoTuner takes its place", name)
        return AutoTuner(task, seed=self.seed)

    def trials(self, count: int) -> int:
        """Return how many configurations are tried of so many.

        Raises:
            TunerError: ``max_fevals`` is no number of them.
        """
        most = self.options.get("max_fevals")
        if most is None:
            return count
        if not isinstance(most, Integral) or most < 1:
            raise TunerError(
                "strategy_options: expected max_fevals to be a whole number from 1 on, got "
                f"{shown(most)}"
            )
        return min(int(most), count)
