"""TVM's `auto_scheduler.cost_model.xgb_model`."""

from typing import TYPE_CHECKING

from autotune.auto_scheduler import XGBModel
from autotune.tvm.names import resolver

__all__ = ["XGBModel"]

if not TYPE_CHECKING:
    __getattr__ = resolver(__name__)
