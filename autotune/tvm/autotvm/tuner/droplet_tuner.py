"""AutoTVM's `tuner.droplet_tuner`."""

from typing import TYPE_CHECKING

from autotune.tuner import DropletTuner
from autotune.tvm.names import resolver

__all__ = ["DropletTuner"]

if not TYPE_CHECKING:
    __getattr__ = resolver(__name__)
