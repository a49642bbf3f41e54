"""TVM's `auto_scheduler.cost_model.cost_model`."""

from autotune.auto_scheduler import CostModel, PythonBasedModel, RandomModel

__all__ = ["CostModel", "PythonBasedModel", "RandomModel"]
