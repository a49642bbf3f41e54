"""AutoTVM's `tuner.index_based_tuner`."""

from autotune.tuner.index_based_tuner import GridSearchTuner, IndexBaseTuner, RandomTuner

__all__ = ["GridSearchTuner", "IndexBaseTuner", "RandomTuner"]
