"""AutoTVM's `tuner.xgboost_tuner`."""

from autotune.tuner import XGBTuner

__all__ = ["XGBTuner"]
