"""AutoTVM's `tuner.callback`."""

from typing import TYPE_CHECKING

from autotune.tuner.callback import *
from autotune.tuner.callback import __all__ as _ours
from autotune.tvm.names import resolver

__all__ = [*_ours]

if not TYPE_CHECKING:
    __getattr__ = resolver(__name__)
