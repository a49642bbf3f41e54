"""Schedules become loop nests, loop nests become kernels."""

from autotune.lower.function import LoweredFunction, LoweredKernel, buffer_bytes
from autotune.lower.lower import Hook, lower, lower_schedule

__all__ = [
    "Hook",
    "LoweredFunction",
    "LoweredKernel",
    "buffer_bytes",
    "lower",
    "lower_schedule",
]
