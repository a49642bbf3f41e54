"""AutoTVM's `tuner.sa_model_optimizer`."""

from autotune.tuner import SimulatedAnnealingOptimizer

__all__ = ["SimulatedAnnealingOptimizer"]
