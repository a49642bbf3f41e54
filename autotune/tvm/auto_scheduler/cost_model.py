"""TVM's `auto_scheduler.cost_model`."""

from typing import TYPE_CHECKING

from autotune.auto_scheduler import CostModel, PythonBasedModel, RandomModel, XGBModel
from autotune.tvm.names import resolver

__all__ = ["CostModel", "PythonBasedModel", "RandomModel", "XGBModel"]

if not TYPE_CHECKING:
    __getattr__ = resolver(__name__)
