"""The surrogate model of `XGBTuner`: expected times of candidates, with their uncertainty."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import numpy.typing as npt

from autotune.cost_model import GaussianProcess, Loss, Posterior, Trees, TreeSettings
from autotune.features import KnobFeatures, LoopFeatures
from autotune.task.constraints.radix import IndexArray
from autotune.tuner.models.pool import CandidatePool, Conditions, Float, join_columns
from autotune.tuner.models.prior import Expectation, trust
from autotune.tuner.models.resources import FEWEST_REPORTS, ResourceColumns

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
    """Measured trials by index; rates are 1 / seconds, 0 for failures.

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
        """The number of points with a known result."""
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
        prior: what records of other tasks say, or None.
    """

    def __init__(
        self,
        features: KnobFeatures,
        loss: Loss,
        rng: np.random.Generator,
        threads: int | None,
        prior: Expectation | None,
    ) -> None:
        self.features, self.loss, self.prior = features, loss, prior
        self._rng = rng
        self._settings = TreeSettings(threads=threads)
        self._process: GaussianProcess | None = None
        self._posterior: Posterior | None = None
        self._believed: dict[int, float] = {}
        self._runs: Trees | None = None
        self._resources: ResourceColumns | None = None
        self._trust = 0.0
        self._scale = (0.0, 1.0)
        self._rates: Float = np.empty(0)
        self.pool = self._pool(np.empty(0, dtype=np.int64))
        self._conditions = self._conditioned_on([])

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
        """Fit the hyperparameters again, for a new pool; to be followed by `expect`."""
        indices = self._kept(trials)
        self._learn_resources(trials)
        x = self._smooth(indices)
        y = _standard(trials.logs(indices, {}))
        if self.prior is not None:
            self.prior.refresh()
            prior = self.prior.predict(indices)
            self._trust = trust(prior, y)
            y = y - self._trust * prior
        if self._process is None or self._process.features != x.shape[1]:
            self._process = GaussianProcess(x.shape[1])
        self._process.fit(x, y, self._rng)
        rows = [*indices, *(index for index in pending if index not in trials.rates)]
        self._posterior = Posterior(self._process, self._smooth(rows), self._smooth(pool))
        self._conditions = self._conditioned_on(rows)
        self._learn_failures(trials)
        self.pool = self._pool(pool)

    def _pool(self, indices: IndexArray) -> CandidatePool:
        values, prior = self.features.plain(indices), self._prior(indices)
        return CandidatePool.fresh(indices, values, prior, self._feasibility(indices))

    def _conditioned_on(self, indices: Sequence[int]) -> Conditions:
        rows = np.array(indices, dtype=np.int64)
        return Conditions(rows, self.features.plain(indices), self._prior(indices))

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
        if self.prior is None or self._trust == 0:
            return np.zeros(len(indices))
        return self._trust * self.prior.predict(indices)

    def _learn_failures(self, trials: Trials) -> None:
        measured = [float(rate > 0) for rate in trials.rates.values()]
        ran = np.array(measured + [0.0] * len(trials.refused))
        if min(ran.sum(), len(ran) - ran.sum()) < LEARN_FAILURES:
            self._runs = None
            return
        settings = TreeSettings(rounds=30, depth=4, rate=0.3, threads=self._settings.threads)
        rows = self._limits([*trials.rates, *trials.refused])
        self._runs = Trees.fit(rows, ran, "chance", settings)

    def _feasibility(self, indices: IndexArray) -> Float:
        """Returns the logarithmic chance of each point to run at all, to the power `CAUTION`."""
        if self._runs is None:
            return np.zeros(len(indices))
        chances = self._runs.predict(self._limits(indices))
        return np.asarray(CAUTION * np.log(np.clip(chances, 1e-3, 1.0)))

    def widen(self, indices: IndexArray) -> None:
        """Add candidates to the pool; `expect` comes next."""
        if self._posterior is None or not len(indices):
            return
        self._posterior.widen(self._smooth(indices))
        self.pool = join_columns(self.pool, self._pool(indices))

    def expect(self, trials: Trials) -> None:
        """Update expectations to what has been measured since."""
        assert self._posterior is not None
        logs = trials.logs(self._conditions.indices.tolist(), self._believed)
        self._scale = (float(logs.mean()), float(logs.std()) + 1e-9)
        y = (logs - self._scale[0]) / self._scale[1]
        from_knobs = self._posterior.mean(y - self._conditions.prior) + self.pool.prior
        self.pool = replace(self.pool, expected=from_knobs + self.pool.correction)
        self._rates = y

    def acquisition(self, column: int | None = None, value: float = 0.0) -> Float:
        """Returns the logarithm of each candidate's expected improvement times its feasibility.

        Args:
            column: of the pool's values; when given, what counts is the improvement over the best
                trial with this ``value`` there, not over the best of all.
            value: of that knob.
        """
        rates = self._rates
        if column is not None:
            rates = rates[self._conditions.values[: len(rates), column] == value]
        best = rates.max() if len(rates) else self._rates.min()
        return log_improvement(self.pool.expected - best, self.spread) + self.pool.feasibility

    def look_at_loops(self, trials: Trials, loops: LoopFeatures) -> None:
        """Correct what is expected of the best candidates by trees on features of their loops."""
        indices = trials.indices()
        values = _standard(trials.logs(indices, {}))
        trees = Trees.fit(loops.trees(indices), values, "reg", self._settings)
        top = np.argsort(-self.acquisition(), kind="stable")[:LOWERED]
        by_loops = trees.predict(loops.trees(self.pool.indices[top]))
        self.pool = self.pool.corrected(top, 0.5 * (by_loops - self.pool.expected[top]))
        self.expect(trials)

    def best_chance(self, inside: npt.NDArray[np.bool_]) -> float:
        """Returns the best chance to run among some candidates."""
        return float(np.exp(self.pool.feasibility[inside].max() / CAUTION))

    def choose(self, position: int) -> int:
        """Takes a candidate as proposed: until it is measured, it is believed as expected."""
        assert self._posterior is not None
        index = int(self.pool.indices[position])
        expected = float(self.pool.expected[position])
        self._believed[index] = expected * self._scale[1] + self._scale[0]
        self.pool = self.pool.without(position)
        self.append([index])
        return index

    def append(self, indices: Sequence[int]) -> None:
        """Condition on more trials, measured or believed."""
        fresh = self._conditions.absent(indices)
        if self._posterior is not None and fresh:
            self._posterior.append(self._smooth(fresh))
            self._conditions = join_columns(self._conditions, self._conditioned_on(fresh))


def log_improvement(gain: Float, spread: Float) -> Float:
    """Return the logarithm of the expected excess over 0 of normal variables.

    Far below 0 the asymptotic series is used, where the plain formula would underflow.
    """
    from scipy.special import ndtr  # takes half a second to load

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
