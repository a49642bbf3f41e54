"""AutoTVM's cost model: boosted trees on features of configurations."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Sequence

import numpy as np

from autotune.cost_model import Loss, Trees, TreeSettings
from autotune.errors import TemplateError, TunerError
from autotune.features import KnobFeatures, LoopFeatures
from autotune.measure import MeasureInput, MeasureResult
from autotune.task import Task
from autotune.task.constraints.radix import IndexArray
from autotune.tuner.model_based_tuner import CostModel
from autotune.tuner.models.prior import Prior
from autotune.tuner.point_tuner import FloatArray

logger = logging.getLogger("autotvm")

# Trials after which the base model's share has halved, and the share below which it is dropped.
HALF_LIFE, LEAST_SHARE = 64, 0.05


class XGBoostCostModel(CostModel):
    """Trees that learn rates, their order, or which are among the best.

    Args:
        task: whose configurations are scored.
        feature_type: "knob"; or "itervar" or "curve", features of the lowered loops of every
            configuration asked about; for source kernels it is "knob" always.
        loss_type: "reg", "rank" or "rank-binary".
        num_threads: of xgboost; None for one.
        log_interval: accepted for AutoTVM scripts.
        upper_model: accepted for AutoTVM scripts.
        seed: of xgboost.

    Raises:
        TunerError: an unknown feature or loss type.
    """

    def __init__(
        self,
        task: Task,
        feature_type: str = "knob",
        loss_type: Loss = "reg",
        num_threads: int | None = None,
        log_interval: int = 25,
        upper_model: XGBoostCostModel | None = None,
        seed: int | None = None,
    ) -> None:
        if feature_type not in ("knob", "itervar", "curve"):
            raise TunerError(
                f"feature_type must be one of knob, itervar, curve; got {feature_type!r}"
            )
        if loss_type not in ("reg", "rank", "rank-binary"):
            raise TunerError(f"loss_type must be one of reg, rank, rank-binary; got {loss_type!r}")
        self.task, self.space = task, task.config_space
        self.feature_type, self.loss_type = feature_type, loss_type
        self.num_threads, self.seed = num_threads, seed or 0
        self._knobs = KnobFeatures(task.config_space)
        self.features: KnobFeatures | LoopFeatures = (
            loop_features_of(task, feature_type) or self._knobs
        )
        self._settings = TreeSettings(rounds=100, depth=4, rate=0.2, threads=num_threads or 1)
        self._trees: Trees | None = None
        self._base: XGBoostCostModel | None = None
        self._prior: Prior | None = None
        self._share = 1.0

    def fit(self, xs: Sequence[int], ys: FloatArray, plan_size: int) -> None:
        """Learn from indices and their rates; failures count as the slowest."""
        rates = np.asarray(ys, dtype=np.float64)
        values = rates / max(float(rates.max()), 1e-12)
        self._share = 0.5 ** (len(rates) / HALF_LIFE)
        if self._share < LEAST_SHARE:
            self._base = None
        margin = None if self._base is None else self._share * self._base.predict(xs)
        rows = self.features.trees(list(xs))
        self._trees = Trees.fit(rows, values, self.loss_type, self._settings, self.seed, margin)

    def fit_log(
        self,
        records: Iterable[tuple[MeasureInput, MeasureResult]],
        plan_size: int,
        min_seed_records: int = 500,
    ) -> bool:
        """Learn from records of the same template, of whatever shape and device."""
        prior = Prior(self.task, self._knobs, records)
        if prior.records < max(1, min_seed_records):
            return False
        self._prior = prior
        return True

    def predict(self, xs: Sequence[int] | IndexArray, output_margin: bool = False) -> FloatArray:
        """Return a score for each index; zeros before anything was learned."""
        if self._trees is None:
            return np.zeros(len(xs)) if self._prior is None else self._prior.predict(xs)
        margin = None if self._base is None else self._share * self._base.predict(xs)
        return self._trees.predict(self.features.trees(xs), margin)

    def load_basemodel(self, base_model: CostModel) -> None:
        """Start from what another model predicts; its share shrinks with every trial."""
        if not isinstance(base_model, XGBoostCostModel):
            raise TunerError(
                f"load_basemodel: expected an XGBoostCostModel, got {type(base_model).__name__}"
            )
        self._base = base_model

    def spawn_base_model(self) -> XGBoostCostModel:
        """Return a fresh model for the same task."""
        return XGBoostCostModel(
            self.task, self.feature_type, self.loss_type, self.num_threads, seed=self.seed
        )


def loop_features_of(task: Task, feature_type: str) -> LoopFeatures | None:
    """Return the loop features that were asked for, or None where knobs are to do."""
    if feature_type == "knob":
        return None
    try:
        return LoopFeatures(task, "curve" if feature_type == "curve" else "itervar")
    except TemplateError as error:
        logger.warning("%s; going on with knob features", error)
        return None


__all__ = ["XGBoostCostModel"]
