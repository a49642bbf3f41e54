"""TVM's `auto_scheduler.cost_model.cost_model`."""

from typing import TYPE_CHECKING

from autotune.auto_scheduler import CostModel, PythonBasedModel, RandomModel
from autotune.tvm.names import resolver

__all__ = ["CostModel", "PythonBasedModel", "RandomModel"]

if not TYPE_CHECKING:
    __getattr__ = resolver(__name__)
