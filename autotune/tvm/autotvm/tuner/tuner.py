"""AutoTVM's `tuner.tuner`."""

from autotune.tuner import Tuner

__all__ = ["Tuner"]
