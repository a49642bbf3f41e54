"""AutoTVM's `tuner.sa_model_optimizer`."""

from typing import TYPE_CHECKING

from autotune.tuner import SimulatedAnnealingOptimizer
from autotune.tvm.names import resolver

__all__ = ["SimulatedAnnealingOptimizer"]

if not TYPE_CHECKING:
    __getattr__ = resolver(__name__)
