"""AutoTVM's `tuner.model_based_tuner`."""

from typing import TYPE_CHECKING

from autotune.tuner.model_based_tuner import (
    CostModel,
    FeatureCache,
    ModelBasedTuner,
    ModelOptimizer,
    submodular_pick,
)
from autotune.tvm.names import resolver

__all__ = ["CostModel", "FeatureCache", "ModelBasedTuner", "ModelOptimizer", "submodular_pick"]

if not TYPE_CHECKING:
    __getattr__ = resolver(__name__)
