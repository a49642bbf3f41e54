"""AutoTVM's `tuner.droplet_tuner`."""

from autotune.tuner import DropletTuner

__all__ = ["DropletTuner"]
