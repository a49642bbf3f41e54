"""The model of `XGBTuner`: what to expect of a pool of candidates, and how sure that is."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt
from scipy.special import ndtr

from autotune.cost_model.gaussian_process import GaussianProcess, Posterior
from autotune.cost_model.xgb import Loss, Trees, TreeSettings
from autotune.features import KnobFeatures, LoopFeatures
from autotune.task.radix import IndexArray
from autotune.tuner.history import History, trust
from autotune.tuner.resources import FEWEST_REPORTS, ResourceColumns

Float = npt.NDArray[np.float64]

# Trials the process is conditioned on: the best half of them, and others.
MOST_TRIALS = 200
# What is slower than this quantile is pulled up to it, on a scale that is this share of the way
# from there to the best: the order among the fast matters, but slow regions have slopes too.
FLOOR_QUANTILE, SOFTNESS = 0.5, 0.4
# Failures of each kind of outcome needed before the chance to fail is learned.
LEARN_FAILURES = 3
# Candidates whose loops are looked at after each fit: lowering one takes milliseconds.
LOWERED = 64
# The expected improvement is multiplied by the chance to run to this power: near the best, where
# improvements are tiny, an honest 1% would still outweigh them.
CAUTION = 2.0


@dataclass
class Trials:
    """What was measured, by index; rates are 1 / seconds, 0 for failures.

    `reports` is what the compiler said of those that it could build, see `resources.report_of`.
    `refused` are points known not to run before anything was built; there may be many times more.
    """

    rates: dict[int, float] = field(default_factory=dict)
    refused: dict[int, None] = field(default_factory=dict)
    reports: dict[int, Float] = field(default_factory=dict)

    def indices(self) -> list[int]:
        """Return all, oldest first."""
        return list(self.rates)

    @property
    def known(self) -> int:
        """How many points something is known of."""
        return len(self.rates) + len(self.refused)

    @property
    def failing(self) -> float:
        """Share of them that does not run."""
        ran = sum(rate > 0 for rate in self.rates.values())
        return 1 - ran / self.known if self.known else 0.0

    def good(self) -> list[int]:
        """Return those that ran, fastest first."""
        ran = [index for index, rate in self.rates.items() if rate > 0]
        return sorted(ran, key=lambda i: -self.rates[i])

    def logs(self, indices: Sequence[int], believed: Mapping[int, float]) -> Float:
        """Return logarithmic rates, slow ones pulled up.

        A failure counts as the median; of a point not measured yet, what is believed of it.
        """
        known = np.log([rate for rate in self.rates.values() if rate > 0])
        floor, failed = np.quantile(known, FLOOR_QUANTILE), float(np.median(known))
        values = []
        for index in indices:
            rate = self.rates.get(index)
            if rate is None:
                values.append(believed.get(index, failed))
            else:
                values.append(np.log(rate) if rate > 0 else failed)
        below = np.maximum(floor - np.array(values), 0.0)
        softness = max(SOFTNESS * float(known.max() - floor), 1e-6)
        return np.asarray(np.maximum(values, floor) - softness * np.log1p(below / softness))


class Surrogate:
    """A Gaussian process over a pool, beside trees that rank whole spaces.

    Args:
        features: of the space.
        loss: what the trees learn.
        rng: of random choices.
        threads: of the trees.
        history: earlier records, or None.
    """

    def __init__(
        self,
        features: KnobFeatures,
        loss: Loss,
        rng: np.random.Generator,
        threads: int | None,
        history: History | None,
    ) -> None:
        self.features, self.loss, self.history = features, loss, history
        self._rng = rng
        self._settings = TreeSettings(threads=threads)
        self._process: GaussianProcess | None = None
        self._posterior: Posterior | None = None
        self._rows: list[int] = []
        self._believed: dict[int, float] = {}
        self._runs: Trees | None = None
        self._resources: ResourceColumns | None = None
        self._trust = 0.0
        self._scale = (0.0, 1.0)
        self.pool: IndexArray = np.empty(0, dtype=np.int64)
        self.expected: Float = np.empty(0)
        self._correction: Float = np.empty(0)
        self._prior_rows: Float = np.empty(0)
        self._prior_pool: Float = np.empty(0)
        self._ease: Float = np.empty(0)
        self._rates: Float = np.empty(0)
        # Raw knob values of candidates and of trials.
        self.values: Float = np.empty((0, 0))
        self._row_values: Float = np.empty((0, 0))

    @property
    def spread(self) -> Float:
        """Standard deviation of each candidate."""
        assert self._posterior is not None
        return np.asarray(np.sqrt(self._posterior.variance))

    def rank(self, trials: Trials) -> Trees:
        """Fit the trees to all trials; they rank spaces of any size quickly."""
        indices = trials.indices()
        values = _standard(trials.logs(indices, {}))
        rows = self.features.trees(indices)
        return Trees.fit(rows, values, self.loss, self._settings, int(self._rng.integers(1 << 30)))

    def fit(self, trials: Trials, pending: Sequence[int], pool: IndexArray) -> None:
        """Find hyperparameters anew, for a new pool; `expect` comes next."""
        indices = self._kept(trials)
        self._learn_resources(trials)
        x = self._smooth(indices)
        y = _standard(trials.logs(indices, {}))
        if self.history is not None:
            prior = self.history.predict(indices)
            self._trust = trust(prior, y)
            y = y - self._trust * prior
        if self._process is None or self._process.features != x.shape[1]:
            self._process = GaussianProcess(x.shape[1])
        self._process.fit(x, y, self._rng)
        self._rows = [*indices, *(index for index in pending if index not in trials.rates)]
        self.pool = pool
        self._posterior = Posterior(self._process, self._smooth(self._rows), self._smooth(pool))
        self._prior_rows, self._prior_pool = self._prior(self._rows), self._prior(pool)
        self._correction = np.zeros(len(pool))
        self.values, self._row_values = (self.features.plain(i) for i in (pool, self._rows))
        self._learn_failures(trials)
        self._ease = self._chances(pool)

    def _learn_resources(self, trials: Trials) -> None:
        if len(trials.reports) >= FEWEST_REPORTS:
            self._resources = ResourceColumns(trials.reports, self.features)

    def _smooth(self, indices: Sequence[int] | IndexArray) -> Float:
        """Return what the process sees of points: knobs, and the resources that they need."""
        knobs = self.features.smooth(indices)
        if self._resources is None:
            return knobs
        return np.hstack([knobs, self._resources.known(indices)])

    def _limits(self, indices: Sequence[int] | IndexArray) -> npt.NDArray[np.float32]:
        """Return what decides whether points run: knobs, and the resources that they need."""
        knobs = self.features.trees(indices)
        if self._resources is None:
            return knobs
        return np.hstack([knobs, self._resources.predicted(indices).astype(np.float32)])

    def _kept(self, trials: Trials) -> list[int]:
        indices = trials.indices()
        if len(indices) <= MOST_TRIALS:
            return indices
        good = trials.good()[: MOST_TRIALS // 2]
        kept = set(good)
        rest = [index for index in indices if index not in kept]
        others = self._rng.choice(len(rest), MOST_TRIALS - len(good), replace=False)
        return good + [rest[i] for i in others]

    def _prior(self, indices: Sequence[int] | IndexArray) -> Float:
        if self.history is None or self._trust == 0:
            return np.zeros(len(indices))
        return self._trust * self.history.predict(indices)

    def _learn_failures(self, trials: Trials) -> None:
        measured = [float(rate > 0) for rate in trials.rates.values()]
        ran = np.array(measured + [0.0] * len(trials.refused))
        if min(ran.sum(), len(ran) - ran.sum()) < LEARN_FAILURES:
            self._runs = None
            return
        settings = TreeSettings(rounds=30, depth=4, rate=0.3, threads=self._settings.threads)
        rows = self._limits([*trials.rates, *trials.refused])
        self._runs = Trees.fit(rows, ran, "chance", settings)

    def _chances(self, indices: IndexArray) -> Float:
        """Return the logarithmic chance of each point to run at all."""
        if self._runs is None:
            return np.zeros(len(indices))
        chances = self._runs.predict(self._limits(indices))
        return np.asarray(CAUTION * np.log(np.clip(chances, 1e-3, 1.0)))

    def widen(self, indices: IndexArray) -> None:
        """Add candidates to the pool; `expect` comes next."""
        if self._posterior is None or not len(indices):
            return
        self._posterior.widen(self._smooth(indices))
        self.pool = np.concatenate([self.pool, indices])
        self._prior_pool = np.concatenate([self._prior_pool, self._prior(indices)])
        self._ease = np.concatenate([self._ease, self._chances(indices)])
        self.values = np.concatenate([self.values, self.features.plain(indices)])
        self._correction = np.concatenate([self._correction, np.zeros(len(indices))])

    def expect(self, trials: Trials) -> None:
        """Update expectations to what has been measured since."""
        assert self._posterior is not None
        logs = trials.logs(self._rows, self._believed)
        self._scale = (float(logs.mean()), float(logs.std()) + 1e-9)
        y = (logs - self._scale[0]) / self._scale[1]
        from_knobs = self._posterior.mean(y - self._prior_rows) + self._prior_pool
        self.expected = from_knobs + self._correction
        self._rates = y

    def promise(self, column: int | None = None, value: float = 0.0) -> Float:
        """Return the logarithm of the expected improvement of each candidate.

        Args:
            column: of `values`; when given, what counts is the improvement over the best trial
                with this ``value`` there, not over the best of all.
            value: of that knob.
        """
        rates = self._rates
        if column is not None:
            rates = rates[self._row_values[: len(rates), column] == value]
        best = rates.max() if len(rates) else self._rates.min()
        return log_improvement(self.expected - best, self.spread) + self._ease

    def look_at_loops(self, trials: Trials, loops: LoopFeatures) -> None:
        """Correct what is expected of the best candidates by trees on features of their loops."""
        indices = trials.indices()
        values = _standard(trials.logs(indices, {}))
        trees = Trees.fit(loops.trees(indices), values, "reg", self._settings)
        top = np.argsort(-self.promise(), kind="stable")[:LOWERED]
        by_loops = trees.predict(loops.trees(self.pool[top]))
        self._correction[top] += 0.5 * (by_loops - self.expected[top])
        self.expect(trials)

    def hopeful(self, inside: npt.NDArray[np.bool_]) -> float:
        """Return the best chance to run among some candidates."""
        return float(np.exp(self._ease[inside].max() / CAUTION))

    def choose(self, position: int) -> int:
        """Take a candidate as proposed: until it is measured, it is believed as expected."""
        assert self._posterior is not None
        index = int(self.pool[position])
        self._believed[index] = float(self.expected[position]) * self._scale[1] + self._scale[0]
        self.append([index])
        return index

    def append(self, indices: Sequence[int]) -> None:
        """Condition on more trials, measured or believed."""
        fresh = [index for index in indices if index not in self._rows]
        if self._posterior is not None and fresh:
            self._posterior.append(self._smooth(fresh))
            self._rows += fresh
            self._prior_rows = np.concatenate([self._prior_rows, self._prior(fresh)])
            self._row_values = np.concatenate([self._row_values, self.features.plain(fresh)])


def log_improvement(gain: Float, spread: Float) -> Float:
    """Return the logarithm of the expected excess over 0 of normal variables.

    Far below 0 the asymptotic series is used, where the plain formula would underflow.
    """
    z = gain / spread
    near = np.clip(z, -5.0, 40.0)
    density = np.exp(-0.5 * near**2) / np.sqrt(2 * np.pi)
    far = np.minimum(z, -5.0)
    tail = -0.5 * far**2 - np.log(far**2) - 0.5 * np.log(2 * np.pi)
    return np.asarray(
        np.where(z < -5.0, tail, np.log(density + near * ndtr(near) + 1e-300)) + np.log(spread)
    )


def _standard(values: Float) -> Float:
    return np.asarray((values - values.mean()) / (values.std() + 1e-9))
