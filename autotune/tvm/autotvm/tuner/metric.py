"""AutoTVM's `tuner.metric`: measures of a ranking."""

from typing import TYPE_CHECKING

from autotune.cost_model.metrics import (
    average_recall,
    cover_curve,
    max_curve,
    mean_curve,
    recall_curve,
)
from autotune.tvm.names import resolver

__all__ = ["average_recall", "cover_curve", "max_curve", "mean_curve", "recall_curve"]

if not TYPE_CHECKING:
    __getattr__ = resolver(__name__)
