"""A learned model of how the time of a candidate departs from its draft."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from autotune.cost_model import Pool, Trees, TreeSettings

Column = npt.NDArray[np.float64]
Features = npt.NDArray[np.float32]

# Ensembles, each learned from another draw of the trials: how they differ says what is not known.
_ENSEMBLES = 3
# What a failed trial counts, in doublings of the slowest time.
_FAILED = 1.0
_SETTINGS = TreeSettings(rounds=60, depth=5, rate=0.15, threads=1)


class RowModel:
    """Predicts the logarithm of the rate of rows; larger is faster.

    It learns what is left when the draft is subtracted, so that it is as good as the draft before
    anything was measured, and forgets the draft where measurements contradict it.

    Args:
        seed: of the ensembles.
        prior: corrects drafts as trials of other workloads say.
    """

    def __init__(self, seed: int, prior: Trees | None = None) -> None:
        self._seed = seed
        self._prior = prior
        self._trees: list[Trees] = []
        self._share = 1.0

    def fit(self, features: Features, drafts: Column, seconds: Column) -> None:
        """Learn from trials; ``seconds`` are infinite where a trial failed."""
        worked = np.isfinite(seconds)
        if not worked.any():
            return
        rates = np.full(len(seconds), -np.log2(seconds[worked]).max() - _FAILED)
        rates[worked] = -np.log2(seconds[worked])
        rates[~worked] = rates[worked].min() - _FAILED
        base = self._base(features, drafts)
        self._share = _slope(base[worked], rates[worked])
        target = rates - self._share * base
        self._mean = float(target.mean())
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

    def predict(self, features: Features, drafts: Column) -> tuple[Column, Column]:
        """Return the logarithms of rates, and how uncertain they are."""
        if not len(drafts):
            return np.zeros(0), np.zeros(0)
        pool = Pool(features, _SETTINGS.threads)
        base = self._share * self._base(pool, drafts)
        if not self._trees:
            return base, np.zeros(len(drafts))
        votes = np.array([trees.predict(pool) for trees in self._trees])
        return base + self._mean + votes.mean(axis=0), votes.std(axis=0)

    def _base(self, features: Features | Pool, drafts: Column) -> Column:
        """Return what is believed of rates before anything of the workload was measured."""
        plain = -np.log2(drafts)
        return plain if self._prior is None else plain + self._prior.predict(features)


def _slope(base: Column, rates: Column) -> float:
    """Return how much of the draft to believe: the slope of a regression, held back to 0..1."""
    spread = base - base.mean()
    power = float(spread @ spread)
    if len(base) < 4 or power < 1e-9:
        return 1.0
    prior = 8.0  # as if so many trials, a doubling apart, had agreed with the draft
    return float(np.clip((spread @ (rates - rates.mean()) + prior) / (power + prior), 0.0, 1.0))
