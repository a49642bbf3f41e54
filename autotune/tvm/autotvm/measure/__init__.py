"""AutoTVM's `measure`."""

from autotune.measure import *
from autotune.measure import __all__ as _ours
from autotune.tvm.autotvm.measure.measure_methods import RPCRunner, request_remote

__all__ = [*_ours, "RPCRunner", "request_remote"]
