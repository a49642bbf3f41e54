"""Tuning networks for so many rounds of trials, however long they take on a busy machine."""

from functools import partial
from unittest.mock import patch

from autotune.network import tune_network
from autotune.network.tuning import tune
from autotune.network.tuning.budget import FOR_THE_RACE, Budget

_ROUND_S = 1000.0


class RoundClock:
    """Tells seconds of which every round takes as many, and all else next to none."""

    def __init__(self):
        self.now = 0.0

    def __call__(self):
        self.now += 1e-3
        return self.now

    def end_round(self):
        self.now += _ROUND_S


def tune_rounds(count, graph, target, log, *, on_round=None, spent_s=0.0, **more):
    """Tune a network by a budget of so many rounds, after those that its log has."""
    clock = RoundClock()

    def ended(progress):
        clock.end_round()
        if on_round is not None:
            on_round(progress)

    budget_s = (spent_s + (count - 0.1) * _ROUND_S) / (1 - FOR_THE_RACE)
    with patch.object(tune, "Budget", partial(Budget, clock=clock)):
        return tune_network(
            graph, None, target, budget_s=budget_s, log=log, on_round=ended, **more
        )
