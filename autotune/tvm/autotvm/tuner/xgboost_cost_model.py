"""AutoTVM's `tuner.xgboost_cost_model`."""

from typing import TYPE_CHECKING

from autotune.tuner import XGBoostCostModel
from autotune.tvm.names import resolver

__all__ = ["XGBoostCostModel"]

if not TYPE_CHECKING:
    __getattr__ = resolver(__name__)
