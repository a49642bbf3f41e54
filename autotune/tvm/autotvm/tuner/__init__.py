"""AutoTVM's `tuner`."""

from typing import TYPE_CHECKING

from autotune.tuner import *
from autotune.tuner import __all__ as _ours
from autotune.tvm.names import resolver

__all__ = [*_ours, "callback"]

if not TYPE_CHECKING:  # TVM's in place of ours, which have fewer names
    import autotune.tvm.autotvm.tuner.callback as callback

    __getattr__ = resolver(__name__)
