"""AutoTVM's `tuner.xgboost_tuner`."""

from typing import TYPE_CHECKING

from autotune.tuner import XGBTuner
from autotune.tvm.names import resolver

__all__ = ["XGBTuner"]

if not TYPE_CHECKING:
    __getattr__ = resolver(__name__)
