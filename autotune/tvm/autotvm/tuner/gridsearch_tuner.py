"""AutoTVM's first name of `tuner.index_based_tuner`."""

from autotune.tuner import GridSearchTuner, RandomTuner

__all__ = ["GridSearchTuner", "RandomTuner"]
