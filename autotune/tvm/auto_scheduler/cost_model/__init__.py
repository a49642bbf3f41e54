"""TVM's `auto_scheduler.cost_model`."""

from autotune.tvm.auto_scheduler.cost_model.cost_model import (
    CostModel,
    PythonBasedModel,
    RandomModel,
)
from autotune.tvm.auto_scheduler.cost_model.xgb_model import XGBModel

__all__ = ["CostModel", "PythonBasedModel", "RandomModel", "XGBModel"]
