"""A learned model of the ratio of the measured to the estimated time of a candidate."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from autotune.auto_scheduler.search.models.common_model import CommonModel
from autotune.cost_model import PredictionRows, Trees, TreeSettings

Column = npt.NDArray[np.float64]
Features = npt.NDArray[np.float32]

# Ensembles, each learned from another draw of the trials: how they differ says what is not known.
_ENSEMBLES = 3
# What a failed trial counts, in doublings of the slowest time.
_FAILED = 1.0
_SETTINGS = TreeSettings(rounds=40, depth=5, rate=0.2, threads=1)


# Trials of the workload itself that count as much as those of all others.
_EQUAL = 64
# How much of what others say is believed before anything was measured, as if trials whose
# predictions differ by so much in squares of doublings had shown it.
_COMMON_WEIGHT, _COMMON_STRENGTH = 1.0, 4.0


class RowModel:
    """Predicts the logarithm of the rate of rows; larger is faster.

    It learns the residual of the estimate, so that it is as good as the estimate before anything
    was measured, and ignores it where measurements contradict it. What trials of all workloads
    say is believed as far as it was right of new trials so far, and counts less the more
    trials there are of this one.

    Args:
        seed: of the ensembles.
        common: corrects estimates as the trials of all workloads say; the features that are given
            are then those that it needs.
    """

    def __init__(self, seed: int, common: CommonModel | None = None) -> None:
        self._seed = seed
        self._common = common
        self._trees: list[Trees] = []
        self._share = self._told_share = 1.0
        self._mean = self._shift = 0.0
        self._trust = 1.0
        self._agreed, self._said = _COMMON_WEIGHT * _COMMON_STRENGTH, _COMMON_STRENGTH

    @property
    def common_weight(self) -> float:
        """The weight of other workloads' trials, from 0 to 1."""
        return min(max(self._agreed / self._said, 0.0), 1.0)

    def judge(self, features: Features, estimates: Column, seconds: Column) -> None:
        """Compare what others say of new trials with what was measured, before it is learned."""
        worked = np.isfinite(seconds)
        if self._common is None or worked.sum() < 2:
            return
        said = self._common.predict(features[worked])
        was = np.log2(estimates[worked]) - np.log2(seconds[worked])
        self._agreed += float((said - said.mean()) @ (was - was.mean()))
        self._said += float((said - said.mean()) @ (said - said.mean()))

    def fit(self, features: Features, estimates: Column, seconds: Column) -> None:
        """Learn from trials; ``seconds`` are infinite where a trial failed."""
        worked = np.isfinite(seconds)
        if not worked.any():
            return
        rates = np.full(len(seconds), -np.log2(seconds[worked]).max() - _FAILED)
        rates[worked] = -np.log2(seconds[worked])
        rates[~worked] = rates[worked].min() - _FAILED
        base = -np.log2(estimates)
        self._share = _slope(base[worked], rates[worked])
        target = rates - self._share * base
        self._mean = float(target.mean())
        if self._common is not None:
            told = base + self.common_weight * self._common.predict(features)
            self._told_share = _slope(told[worked], rates[worked])
            self._shift = float((rates - self._told_share * told)[worked].mean())
            self._trust = _EQUAL / (_EQUAL + len(rates))
        rng = np.random.default_rng(self._seed)
        # The fastest trials are what has to be told apart.
        weights = 2.0 ** (rates - rates.max())
        chance = weights / weights.sum() * 0.5 + 0.5 / len(rates)
        self._trees = []
        for i in range(_ENSEMBLES):
            drawn = rng.choice(len(rates), size=len(rates), p=chance)
            which = np.concatenate([np.arange(len(rates)), drawn]) if i else np.arange(len(rates))
            values = target[which] - self._mean
            self._trees.append(
                Trees.fit(features[which], values, "reg", _SETTINGS, self._seed + i)
            )

    def predict(self, features: Features, estimates: Column) -> tuple[Column, Column]:
        """Return the logarithms of rates, and how uncertain they are."""
        if not len(estimates):
            return np.zeros(0), np.zeros(0)
        pool = PredictionRows(features, _SETTINGS.threads)
        base = -np.log2(estimates)
        all_say = base
        if self._common is not None:
            all_say = base + self.common_weight * self._common.predict(features, pool)
        if not self._trees:
            return all_say, np.zeros(len(estimates))
        votes = np.array([trees.predict(pool) for trees in self._trees])
        own = self._share * base + self._mean + votes.mean(axis=0)
        told = self._told_share * all_say + self._shift
        return own + self._trust * (told - own), votes.std(axis=0)


def _slope(base: Column, rates: Column) -> float:
    """Return how much of the estimate to believe: the slope of a regression, held back to 0..1."""
    spread = base - base.mean()
    power = float(spread @ spread)
    if len(base) < 4 or power < 1e-9:
        return 1.0
    prior = 8.0  # as if so many trials, a doubling apart, had agreed with the estimate
    return float(np.clip((spread @ (rates - rates.mean()) + prior) / (power + prior), 0.0, 1.0))
