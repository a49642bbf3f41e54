"""AutoTVM's first name for the place of the tuners that ignore what was measured."""

from autotune.tuner.index_based_tuner import GridSearchTuner, RandomTuner

__all__ = ["GridSearchTuner", "RandomTuner"]
