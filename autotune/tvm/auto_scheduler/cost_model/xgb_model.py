"""TVM's `auto_scheduler.cost_model.xgb_model`."""

from autotune.auto_scheduler import XGBModel

__all__ = ["XGBModel"]
