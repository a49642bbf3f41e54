"""The tuner that is guided by a learned cost model."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Sequence
from functools import cache

import numpy as np

from autotune.cost_model import Loss, one_thread
from autotune.errors import TunerError
from autotune.features import KnobFeatures
from autotune.measure import MeasureInput, MeasureResult
from autotune.task import ConfigEntity, Task
from autotune.tuner.loop.resume import history_of
from autotune.tuner.model_based_tuner import CostModel, ModelOptimizer
from autotune.tuner.models.candidates import Candidates, candidates_of, far_points, untuned
from autotune.tuner.models.prior import Expectation, Prior
from autotune.tuner.models.resources import report_of
from autotune.tuner.models.surrogate import Surrogate, Trials
from autotune.tuner.point_tuner import FloatArray, PointTuner
from autotune.tuner.xgboost_cost_model import XGBoostCostModel, loop_features_of
from autotune.utils.check import Check

logger = logging.getLogger("autotvm")

# Trials far from each other before the first fit; trials and successes needed for it.
FIRST, FEWEST, LEAST = 10, 6, 2
# Candidates scored closely between two fits.
POOL = 2500
# A fit when the number of trials has grown by this factor; results count at once in between.
GROWTH = 1.35
# Around how many of the best all one-knob neighbours are candidates; most of those at a time.
AROUND, MOST_NEIGHBOURS = 3, 600
# Every third proposal explores: it should become the best of a random slice of the space.
EXPLORE_EVERY = 3
# Slices drawn until one is likely to hold something that runs.
SLICES = 8
# Every so many proposals one is random whatever the model says.
RANDOM_EVERY = 40
# Fewest records of other tasks worth learning from.
LEAST_HISTORY = 8


@cache
def _say_unused(names: str) -> None:
    """Warn of arguments without effect: once a process."""
    logger.warning("XGBTuner: no effect: %s; ModelBasedTuner is AutoTVM's own way", names)


class XGBTuner(PointTuner):
    """Proposes what a cost model expects to be fast, or does not know well enough.

    What runs untuned is tried first, then points far from it and from each other.
    Boosted trees rank every valid point of the space, or what annealing on them finds in a space
    too large for that. The better ones, all one-knob neighbours of the best measured points and a
    random sample are then scored by a Gaussian process, which also tells how unsure it is. Two
    proposals out of three have the largest expected improvement; the third has the largest over
    the best of a random slice of the space, so that no region stays unseen. What was proposed but
    not measured yet counts as measured with its expectation, which keeps batches diverse.

    Failed trials teach the chance to run, which the expected improvement is multiplied by.

    Args:
        task: what is tuned.
        plan_size: most proposals between two fits.
        feature_type: "knob"; or "itervar" or "curve", to look also at the lowered loops of the
            best candidates after each fit, which takes milliseconds for each. The template must
            return a schedule for that; for source kernels it is "knob" always.
        loss_type: what the trees learn: "reg" (rates), "rank" (their order) or "rank-binary".
        num_threads: threads of the trees; None for one, which is fastest for small models.
        optimizer: has no effect; AutoTVM scripts say "sa" or give a `ModelOptimizer`, for which
            `ModelBasedTuner` is. A warning says so when it is not "sa".
        diversity_filter_ratio: has no effect: batches are diverse by themselves. AutoTVM's scripts
            say at least 1; a warning says so when it is given.
        log_interval: has no effect: callbacks report. A warning says so when it is not 50.
        seed: makes the proposals repeatable.

    Raises:
        TunerError: an unknown feature or loss type.
    """

    def __init__(
        self,
        task: Task,
        plan_size: int = 64,
        feature_type: str = "knob",
        loss_type: Loss = "reg",
        num_threads: int | None = None,
        optimizer: object = "sa",
        diversity_filter_ratio: float | None = None,
        log_interval: int = 50,
        seed: int | None = None,
    ) -> None:
        super().__init__(task, seed)
        check = Check(TunerError, "XGBTuner")
        check.whole("plan_size", plan_size, least=1)
        check.one_of("feature_type", feature_type, ("knob", "itervar", "curve"))
        check.one_of("loss_type", loss_type, ("reg", "rank", "rank-binary"))
        if num_threads is not None:
            check.whole("num_threads", num_threads, least=1)
        self._check_unused(check, optimizer, diversity_filter_ratio, log_interval)
        self.plan_size, self.feature_type, self.loss_type = plan_size, feature_type, loss_type
        self._threads = num_threads or 1
        self.features = KnobFeatures(self.space)
        self._loops = loop_features_of(task, feature_type)
        self._trials = Trials()
        self._pending: dict[int, None] = {}
        self._model: tuple[int, CostModel] | None = None
        self._surrogate: Surrogate | None = None
        self._candidates: Candidates | None = None
        self._prior: Expectation | None = None
        self._opening: list[int] | None = None
        self._fit_at = self._since_fit = self._turn = 0
        self._news: list[int] = []
        self._near: dict[int, list[int]] = {}

    @staticmethod
    def _check_unused(
        check: Check, optimizer: object, diversity_filter_ratio: object, log_interval: object
    ) -> None:
        """Refuse what AutoTVM refuses too, and say once what has no effect."""
        usual = isinstance(optimizer, str) and optimizer == "sa"
        if not usual and not isinstance(optimizer, ModelOptimizer):
            check.refuse("optimizer", "'sa' or a ModelOptimizer", optimizer)
        if diversity_filter_ratio is not None:
            check.number("diversity_filter_ratio", diversity_filter_ratio, least=1)
        check.whole("log_interval", log_interval, least=1)
        used = {
            "optimizer": not usual,
            "diversity_filter_ratio": diversity_filter_ratio is not None,
            "log_interval": log_interval != 50,
        }
        if named := [name for name, given in used.items() if given]:
            _say_unused(", ".join(named))

    # ---- what subclasses of AutoTVM's tuner look at

    @property
    def xs(self) -> list[int]:
        """Indices measured so far, oldest first."""
        return self._trials.indices()

    @property
    def ys(self) -> list[float]:
        """Operations per second of `xs`; 0 for failures."""
        return [rate * self.work for rate in self._trials.rates.values()]

    @property
    def cost_model(self) -> CostModel:
        """AutoTVM's model, fitted to all trials.

        It is created on first use; the tuner's own proposals are based on another model.
        """
        known = len(self._trials.rates)
        if self._model is None or self._model[0] != known:
            model = XGBoostCostModel(self.task, self.feature_type, self.loss_type, seed=self.seed)
            if known:
                model.fit(self.xs, np.array(self.ys), self.plan_size)
            self._model = known, model
        return self._model[1]

    # ---- proposing

    def propose(self, n: int) -> Iterable[int]:
        """Return the most promising points; at first a few that tell most."""
        if self._opening is None:
            self._opening = self._first()
        chosen: list[int] = []
        while self._opening and len(chosen) < n:
            chosen.append(self._opening.pop(0))
        chosen = [index for index in chosen if index not in self.visited]
        if len(chosen) < n and self._knows_enough():
            self._pending |= dict.fromkeys(chosen)
            # The surrogate solves with scipy, whose threads would spin while kernels are timed.
            with one_thread("scipy.linalg"):
                chosen += self._modelled(n - len(chosen))
        self._pending |= dict.fromkeys(chosen)
        return chosen

    def _fill(self, n: int) -> list[int]:
        if self._knows_enough() or self._trials.failing > 0.5:
            # Far corners fail more often than other points do.
            filled = super()._fill(n)
        else:
            filled = far_points(self.space, self.features, self.rng, n, self.visited)
            self.visited.update(filled)
        self._pending |= dict.fromkeys(filled)
        if self._surrogate is not None:
            self._news += filled
        return filled

    def _knows_enough(self) -> bool:
        rates = self._trials.rates
        return len(rates) >= FEWEST and sum(rate > 0 for rate in rates.values()) >= LEAST

    def _first(self) -> list[int]:
        """Return the points to try before the model knows anything of this task.

        What runs untuned comes first: the final race wants it measured, and where its author
        estimates well, its neighbours are the place to look.
        """
        known = [index for index in untuned(self.task) if index not in self.visited]
        prior, taken = self._prior, self.visited.union(known)
        if prior is None:
            far = far_points(self.space, self.features, self.rng, FIRST - len(known), taken)
            return [*known, *far]
        sample = self.space.sample(POOL, self.rng, taken)
        order = np.argsort(-prior.predict(sample), kind="stable")[: FIRST // 2]
        room = FIRST - len(known) - len(prior.starts) - len(order)
        others = sample[: max(room, 0)]
        return list(
            dict.fromkeys([*known, *prior.starts, *sample[order].tolist(), *others.tolist()])
        )

    def _modelled(self, n: int) -> list[int]:
        surrogate = self._refresh()
        chosen: list[int] = []
        while len(chosen) < n and (is_open := surrogate.pool.is_open).any():
            self._turn += 1
            if self._turn % RANDOM_EVERY == 0:
                acquisition = self.rng.random(len(is_open))
            elif self._turn % EXPLORE_EVERY == 0:
                acquisition = self._within_slice(surrogate)
            else:
                acquisition = surrogate.acquisition()
            position = int(np.argmax(np.where(is_open, acquisition, -np.inf)))
            chosen.append(surrogate.choose(position))
        self._since_fit += len(chosen)
        return chosen

    def _within_slice(self, surrogate: Surrogate) -> FloatArray:
        """Returns the acquisition of the candidates that share one value of one knob, both drawn.

        What counts is to be better than anything measured in that slice. So poor regions are
        descended too: the best of a region is often hidden behind poor neighbours.
        """
        pool = surrogate.pool
        left = pool.values[pool.is_open]
        varied = np.flatnonzero(np.ptp(left, axis=0) > 0)
        if not len(varied):
            return surrogate.acquisition()
        for _ in range(SLICES):
            column = int(self.rng.choice(varied))
            value = float(self.rng.choice(np.unique(left[:, column])))
            inside = (pool.values[:, column] == value) & pool.is_open
            if self.rng.random() < surrogate.best_chance(inside):
                return np.where(inside, surrogate.acquisition(column, value), -np.inf)
        return surrogate.acquisition()

    # ---- learning

    def update(self, inputs: Sequence[MeasureInput], results: Sequence[MeasureResult]) -> None:
        """Learn from measured trials, and from what the compiler reported of them."""
        for inp, result in zip(inputs, results, strict=True):
            report = report_of(result.evidence)
            if report is not None:
                self._trials.reports[int(ConfigEntity.of(inp.config).index)] = report
        super().update(inputs, results)

    def learn(self, indices: Sequence[int], rates: FloatArray) -> None:
        """Record measured points."""
        for index, rate in zip(indices, rates.tolist(), strict=True):
            self._trials.rates[index] = rate
            self._pending.pop(index, None)
        self._news += indices

    def refuse(self, indices: Sequence[int]) -> None:
        """Learn where points cannot run, and nothing of how fast those are that do."""
        for index in indices:
            self._trials.refused[index] = None
            self._pending.pop(index, None)
        self._news += indices

    def _taken(self) -> set[int]:
        return self.visited.union(self._pending)

    def _refresh(self) -> Surrogate:
        """Puts everything known into the surrogate, and returns it."""
        surrogate = self._surrogate
        grown = self._trials.known >= self._fit_at * GROWTH or self._since_fit >= self.plan_size
        if surrogate is None or (grown and self._news) or not surrogate.pool.is_open.any():
            return self._refit()
        if self._news:
            surrogate.append([i for i in self._news if i in self._trials.rates])
            self._news = []
            self._look_around(surrogate)
            surrogate.expect(self._trials)
        return surrogate

    def _refit(self) -> Surrogate:
        """Fit the models again and choose new candidates."""
        if self._surrogate is None:
            self._surrogate = Surrogate(
                self.features, self.loss_type, self.rng, self._threads, self._prior
            )
            self._candidates = candidates_of(self.space, self.features, self.rng)
        assert self._candidates is not None
        surrogate, good = self._surrogate, self._trials.good()
        trees = surrogate.rank(self._trials)
        pool = self._candidates.choose(trees, self._taken(), good, POOL)
        surrogate.fit(self._trials, list(self._pending), pool)
        self._fit_at, self._since_fit, self._news = self._trials.known, 0, []
        self._look_around(surrogate)
        surrogate.expect(self._trials)
        if self._loops is not None:
            surrogate.look_at_loops(self._trials, self._loops)
        return surrogate

    def _look_around(self, surrogate: Surrogate) -> None:
        """Make the neighbours of the best points candidates."""
        near: dict[int, None] = {}
        for index in self._trials.good()[:AROUND]:
            near |= dict.fromkeys(self._neighbours(index))
        candidates = surrogate.pool.indices
        known = self._taken().union(candidates.tolist())
        fresh = np.array([i for i in near if i not in known], dtype=candidates.dtype)
        if len(fresh) > MOST_NEIGHBOURS:
            fresh = self.rng.choice(fresh, MOST_NEIGHBOURS, replace=False)
        surrogate.widen(fresh)

    def _neighbours(self, index: int) -> list[int]:
        if index not in self._near:
            self._near[index] = [int(i) for i in self.space.neighbours(index)]
        return self._near[index]

    def load_history(
        self,
        data_set: Iterable[tuple[MeasureInput, MeasureResult]],
        min_seed_records: int = LEAST_HISTORY,
    ) -> None:
        """Learn from records of the same template: other shapes, other devices.

        The best configurations of the nearest shapes are tried first, as near as this space has
        them. A model of all records then is the expectation that the trials of this task correct;
        it is followed as far as it explains them, and dropped when it does not.

        Args:
            data_set: records; those of other templates and failures are passed over.
            min_seed_records: fewest usable records to learn from.
        """
        prior = Prior(self.task, self.features, history_of(data_set))
        if prior.records < min_seed_records:
            logger.debug(
                "load_history: %d usable records, %d are needed; ignored",
                prior.records, min_seed_records,
            )  # fmt: skip
            return
        self._prior, self._opening, self._surrogate = prior, None, None

    def reset(self) -> None:
        """Forget the trials of this task, but keep what was learned from records."""
        super().reset()
        self.visited.clear()
        self._exhausted = False
        self._trials, self._pending = Trials(), {}
        self._surrogate, self._opening = None, None
        self._fit_at = self._since_fit = 0
        self._news = []
