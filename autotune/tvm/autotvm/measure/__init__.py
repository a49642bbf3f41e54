"""AutoTVM's `measure`."""

from typing import TYPE_CHECKING

from autotune.measure import *
from autotune.measure import __all__ as _ours
from autotune.tvm.autotvm.measure.measure_methods import RPCRunner, request_remote
from autotune.tvm.names import resolver

__all__ = [*_ours, "RPCRunner", "request_remote"]

if not TYPE_CHECKING:
    __getattr__ = resolver(__name__)
