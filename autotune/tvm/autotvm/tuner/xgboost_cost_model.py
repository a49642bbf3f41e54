"""AutoTVM's `tuner.xgboost_cost_model`."""

from autotune.tuner import XGBoostCostModel

__all__ = ["XGBoostCostModel"]
