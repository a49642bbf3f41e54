"""Schedules become loop nests, loop nests become kernels."""

from autotune.lowering.bounds import infer_bound
from autotune.lowering.function import LoweredFunction, LoweredKernel, buffer_bytes
from autotune.lowering.lower import Hook, lower, lower_schedule
from autotune.lowering.passes import PASSES, Pass
from autotune.lowering.verify import verify_gpu

__all__ = [
    "PASSES",
    "Hook",
    "LoweredFunction",
    "LoweredKernel",
    "Pass",
    "buffer_bytes",
    "infer_bound",
    "lower",
    "lower_schedule",
    "verify_gpu",
]
