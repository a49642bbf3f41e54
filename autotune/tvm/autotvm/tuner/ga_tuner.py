"""AutoTVM's `tuner.ga_tuner`."""

from typing import TYPE_CHECKING

from autotune.tuner import GATuner, Tuner
from autotune.tvm.names import resolver

__all__ = ["GATuner", "Tuner"]

if not TYPE_CHECKING:
    __getattr__ = resolver(__name__)
