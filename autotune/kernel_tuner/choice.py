"""How configurations are chosen: Kernel Tuner's strategies, and ours in their place."""

from __future__ import annotations

import logging
import math
from collections.abc import Mapping
from dataclasses import dataclass
from numbers import Integral
from typing import Any

from autotune.errors import TunerError
from autotune.task import Task
from autotune.tuner import GATuner, GridSearchTuner, RandomTuner, SimulatedAnnealingTuner, Tuner
from autotune.utils.check import Check, shown

logger = logging.getLogger("autotvm")

# Kernel Tuner's strategies that have a counterpart; `AutoTuner` takes the place of the others.
_TUNERS: Mapping[str, type[Tuner]] = {
    "brute_force": GridSearchTuner,
    "genetic_algorithm": GATuner,
    "random_sample": RandomTuner,
    "simulated_annealing": SimulatedAnnealingTuner,
}
_OTHERS = (
    "adaptive_tabu_greywolf", "basinhopping", "bayes_opt", "bayes_opt_BOTorch", "bayes_opt_old",
    "diff_evo", "dual_annealing", "firefly_algorithm", "greedy_ils", "greedy_mls", "hybrid_vndx",
    "minimize", "mls", "ordered_greedy_mls", "pso", "pyatf_strategies", "skopt",
)  # fmt: skip
STRATEGIES = (*_TUNERS, *_OTHERS)
# How many configurations Kernel Tuner tries without max_fevals: of some the population and the
# generations, of climbers a number; all others go on until the space is exhausted.
_POPULATIONS = {
    "diff_evo": (16, None), "firefly_algorithm": (20, 100), "genetic_algorithm": (26, 90),
    "pso": (50, 190),
}  # fmt: skip
_CLIMBERS = ("greedy_ils", "greedy_mls", "mls", "ordered_greedy_mls")
_CLIMBS = 100
_FRACTION = 0.1


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

    @property
    def name(self) -> str:
        """The name of the strategy.

        Raises:
            TunerError: there is no such strategy.
        """
        if self.strategy is None:
            return "random_sample" if "max_fevals" in self.options else "brute_force"
        if isinstance(self.strategy, str) and self.strategy in STRATEGIES:
            return self.strategy
        if callable(getattr(self.strategy, "tune", None)):
            raise TunerError(
                f"strategy: {shown(self.strategy)} walks Kernel Tuner's Searchspace, which is not "
                f"here: write a subclass of autotune.tuner.Tuner, or name one of "
                f"{', '.join(STRATEGIES)}"
            )
        raise TunerError(
            f"strategy: expected one of {', '.join(STRATEGIES)}, got {shown(self.strategy)}"
        )

    @property
    def seconds(self) -> float | None:
        """After how many seconds nothing more is tried; None for never.

        Raises:
            TunerError: ``time_limit`` is no positive number.
        """
        limit = self.options.get("time_limit")
        return None if limit is None else Check(TunerError, "strategy_options").seconds(
            "time_limit", limit
        )  # fmt: skip

    def tuner(self, task: Task) -> Tuner:
        """Make the tuner."""
        if self.name in _TUNERS:
            return _TUNERS[self.name](task, seed=self.seed)
        from autotune.tuner import AutoTuner

        logger.info("strategy %r is not here: AutoTuner takes its place", self.name)
        return AutoTuner(task, seed=self.seed)

    def trials(self, count: int) -> int:
        """Return how many configurations are tried of so many, by default as Kernel Tuner does.

        Raises:
            TunerError: an option is no number of them, or no such strategy is there.
        """
        if self.options.get("max_fevals") is not None:
            return min(self._whole("max_fevals", None), count)
        if self.name == "random_sample":
            return max(1, math.ceil(self._fraction() * count))
        if self.name in _CLIMBERS:
            return min(_CLIMBS, count)
        people, generations = _POPULATIONS.get(self.name, (None, None))
        if people is None or (generations is None and self.options.get("maxiter") is None):
            return count
        return min(self._whole("popsize", people) * self._whole("maxiter", generations), count)

    def _whole(self, name: str, default: int | None) -> int:
        value = self.options.get(name)
        value = default if value is None else value
        if not isinstance(value, Integral) or value < 1:
            raise TunerError(
                f"strategy_options: expected {name} to be a whole number from 1 on, got "
                f"{shown(value)}"
            )
        return int(value)

    def _fraction(self) -> float:
        value = self.options.get("fraction", _FRACTION)
        if not isinstance(value, int | float) or not 0 <= value <= 1:
            raise TunerError(
                "strategy_options: expected fraction to be a number from 0 to 1, got "
                f"{shown(value)}"
            )
        return float(value)
