"""AutoTVM's `tuner.ga_tuner`."""

from autotune.tuner import GATuner, Tuner

__all__ = ["GATuner", "Tuner"]
