"""AutoTVM's first name of `tuner.index_based_tuner`."""

from typing import TYPE_CHECKING

from autotune.tuner import GridSearchTuner, RandomTuner
from autotune.tvm.names import resolver

__all__ = ["GridSearchTuner", "RandomTuner"]

if not TYPE_CHECKING:
    __getattr__ = resolver(__name__)
