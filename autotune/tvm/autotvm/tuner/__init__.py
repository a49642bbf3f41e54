"""AutoTVM's `tuner`."""

from typing import TYPE_CHECKING

from autotune.tuner import *
from autotune.tuner import __all__ as _ours

__all__ = [*_ours, "callback"]

if not TYPE_CHECKING:  # TVM's in place of ours, which have fewer names
    import autotune.tvm.autotvm.tuner.callback as callback
