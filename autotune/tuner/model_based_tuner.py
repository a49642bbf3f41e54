"""AutoTVM's way to be guided by a model: plans of many trials, found by an optimiser.

`XGBTuner` needs fewer trials; these classes are for scripts that bring a cost model or a model
optimiser of their own.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence

import numpy as np
import numpy.typing as npt

from autotune.errors import TunerError
from autotune.measure import MeasureInput, MeasureResult
from autotune.task import Task
from autotune.task.constraints.radix import IndexArray, IntArray
from autotune.tuner.loop.resume import history_of
from autotune.tuner.point_tuner import FloatArray, PointTuner
from autotune.utils.check import Check

# The last part of each plan is drawn at random.
RANDOM_SHARE = 0.05


class CostModel:
    """Predicts how fast configurations are; the scale is its own, larger is faster."""

    def fit(self, xs: Sequence[int], ys: FloatArray, plan_size: int) -> None:
        """Learn from indices and their rates; a rate of 0 means a failure."""
        raise NotImplementedError(f"{type(self).__name__} must define fit(xs, ys, plan_size)")

    def fit_log(
        self,
        records: Iterable[tuple[MeasureInput, MeasureResult]],
        plan_size: int,
        min_seed_records: int = 500,
    ) -> bool:
        """Learn from records of the same template; return whether there were enough."""
        raise NotImplementedError(f"{type(self).__name__} must define fit_log(...)")

    def predict(self, xs: Sequence[int] | IndexArray, output_margin: bool = False) -> FloatArray:
        """Return a score for each index."""
        raise NotImplementedError(f"{type(self).__name__} must define predict(xs)")

    def load_basemodel(self, base_model: CostModel) -> None:
        """Start from what another model predicts."""
        raise NotImplementedError(f"{type(self).__name__} must define load_basemodel(base_model)")

    def spawn_base_model(self) -> CostModel:
        """Return a fresh model of the same kind."""
        raise NotImplementedError(f"{type(self).__name__} must define spawn_base_model()")


class ModelOptimizer:
    """Finds the configurations that a model likes best."""

    def find_maximums(self, model: CostModel, num: int, exclusive: Collection[int]) -> list[int]:
        """Return up to ``num`` indices with high scores, best first, none of ``exclusive``."""
        raise NotImplementedError(f"{type(self).__name__} must define find_maximums(...)")


class FeatureCache:
    """Features by kind and index; forgets everything when it grows too large."""

    max_size = 10_000

    def __init__(self) -> None:
        self.feature_cache: dict[str, dict[object, object]] = {}

    def get(self, key: str) -> dict[object, object]:
        """Return the features of one kind, to read and to add to."""
        return self.feature_cache.setdefault(key, {})

    def size(self, key: str) -> int:
        """Return how many features of a kind are kept."""
        return len(self.feature_cache.get(key, {}))

    def clear(self, key: str) -> None:
        """Forget the features of a kind once there are too many."""
        if self.size(key) >= self.max_size:
            self.feature_cache[key] = {}


class ModelBasedTuner(PointTuner):
    """Measures plans of ``plan_size`` points that an optimiser finds on a model.

    Args:
        task: what is tuned.
        cost_model: learns after each plan.
        model_optimizer: makes the next plan.
        plan_size: trials of a plan.
        diversity_filter_ratio: when given, this many times the plan is found, and a diverse part
            of it chosen.
        seed: of random choices.

    Raises:
        TunerError: the ratio is below 1.
    """

    def __init__(
        self,
        task: Task,
        cost_model: CostModel,
        model_optimizer: ModelOptimizer,
        plan_size: int,
        diversity_filter_ratio: float | None = None,
        seed: int | None = None,
    ) -> None:
        super().__init__(task, seed)
        if diversity_filter_ratio is not None:
            check = Check(TunerError, type(self).__name__)
            check.number("diversity_filter_ratio", diversity_filter_ratio, least=1)
        self.cost_model, self.model_optimizer = cost_model, model_optimizer
        self.plan_size = max(1, min(plan_size, self.space.rough_count))
        self.diversity_filter_ratio = diversity_filter_ratio
        self.xs: list[int] = []
        self.ys: list[float] = []
        self.trials: list[int] = []
        self.train_ct = 0

    def propose(self, n: int) -> Iterable[int]:
        """Return the next points of the plan, before its last part."""
        keep_random = int(RANDOM_SHARE * self.plan_size)
        chosen: list[int] = []
        while len(chosen) < n and len(self.trials) > keep_random:
            index = self.trials.pop(0)
            if index not in self.visited:
                chosen.append(index)
        return chosen

    def learn(self, indices: Sequence[int], rates: FloatArray) -> None:
        """Collect a plan's results, then fit the model and make the next plan."""
        self.xs += indices
        self.ys += (rates * self.work).tolist()
        if len(self.xs) < self.plan_size * (self.train_ct + 1) or max(self.ys) <= 0:
            return
        self.cost_model.fit(self.xs, np.array(self.ys), self.plan_size)
        self._plan(self.cost_model)
        self.train_ct += 1

    def _plan(self, model: CostModel) -> None:
        if self.diversity_filter_ratio is None:
            found = self.model_optimizer.find_maximums(model, self.plan_size, self.visited)
        else:
            wanted = int(self.plan_size * self.diversity_filter_ratio)
            found = self.model_optimizer.find_maximums(model, wanted, self.visited)
            picked = submodular_pick(model.predict(found), self.space.knobs(found), self.plan_size)
            found = [found[i] for i in picked]
        self.trials = list(found)

    def load_history(
        self,
        data_set: Iterable[tuple[MeasureInput, MeasureResult]],
        min_seed_records: int = 500,
    ) -> None:
        """Fit a base model to earlier records, and make the first plan with it."""
        base = self.cost_model.spawn_base_model()
        if not base.fit_log(history_of(data_set), self.plan_size, min_seed_records):
            return
        self._plan(base)
        self.cost_model.load_basemodel(base)

    def reset(self) -> None:
        """Forget the trials."""
        super().reset()
        self.visited.clear()
        self._exhausted = False
        self.xs, self.ys, self.trials, self.train_ct = [], [], [], 0


def submodular_pick(
    scores: npt.ArrayLike, knobs: IntArray, n_pick: int, knob_weight: float = 1.0
) -> list[int]:
    """Choose rows with high scores whose knobs differ.

    Greedily maximises the sum of scores plus ``knob_weight`` for each (knob, value) that occurs.

    Returns:
        Positions, in the order chosen.
    """
    scores = np.asarray(scores, dtype=np.float64)
    low = float(scores.min()) if len(scores) else 0.0
    left = np.ones(len(scores), dtype=np.bool_)
    seen: list[set[int]] = [set() for _ in range(knobs.shape[1])]
    news = np.full(len(scores), float(knobs.shape[1]))
    chosen: list[int] = []
    for _ in range(min(n_pick, len(scores))):
        gain = np.where(left, scores - low + knob_weight * news, -np.inf)
        best = int(np.argmax(gain))
        chosen.append(best)
        left[best] = False
        for column, values in enumerate(seen):
            value = int(knobs[best, column])
            if value not in values:
                values.add(value)
                news -= knobs[:, column] == value
    return chosen
