"""TVM's `auto_scheduler.cost_model`."""

from typing import TYPE_CHECKING

from autotune.tvm.auto_scheduler.cost_model.cost_model import (
    CostModel,
    PythonBasedModel,
    RandomModel,
)
from autotune.tvm.auto_scheduler.cost_model.xgb_model import XGBModel
from autotune.tvm.names import resolver

__all__ = ["CostModel", "PythonBasedModel", "RandomModel", "XGBModel"]

if not TYPE_CHECKING:
    __getattr__ = resolver(__name__)
