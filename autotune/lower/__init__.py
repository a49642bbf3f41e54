"""Schedules become loop nests, loop nests become kernels."""

from autotune.lower.bounds import infer_bound
from autotune.lower.function import LoweredFunction, LoweredKernel, buffer_bytes
from autotune.lower.lower import Hook, lower, lower_schedule
from autotune.lower.verify import verify_gpu

__all__ = [
    "Hook",
    "LoweredFunction",
    "LoweredKernel",
    "buffer_bytes",
    "infer_bound",
    "lower",
    "lower_schedule",
    "verify_gpu",
]
