"""AutoTVM's `tuner.tuner`."""

from typing import TYPE_CHECKING

from autotune.tuner import Tuner
from autotune.tvm.names import resolver

__all__ = ["Tuner"]

if not TYPE_CHECKING:
    __getattr__ = resolver(__name__)
