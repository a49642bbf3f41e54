"""AutoTVM's `tuner.metric`: measures of a ranking."""

from autotune.cost_model.metrics import (
    average_recall,
    cover_curve,
    max_curve,
    mean_curve,
    recall_curve,
)

__all__ = ["average_recall", "cover_curve", "max_curve", "mean_curve", "recall_curve"]
