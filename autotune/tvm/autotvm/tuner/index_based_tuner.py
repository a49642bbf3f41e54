"""AutoTVM's `tuner.index_based_tuner`."""

from typing import TYPE_CHECKING

from autotune.tuner.index_based_tuner import GridSearchTuner, IndexBaseTuner, RandomTuner
from autotune.tvm.names import resolver

__all__ = ["GridSearchTuner", "IndexBaseTuner", "RandomTuner"]

if not TYPE_CHECKING:
    __getattr__ = resolver(__name__)
