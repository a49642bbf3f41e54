"""Targets: the string that names one, and the limits of the device behind it.

A `Target` has its `Limits` and its `Backend`; `query` asks the driver which devices there are.
"""

from autotune.target.backends import Backend, Language
from autotune.target.device_class import arch_here, arch_of_class, device_class
from autotune.target.limits import Limits
from autotune.target.query import (
    CudaDevice,
    cuda_device,
    cuda_device_count,
    cuda_driver_release,
)
from autotune.target.target import Kind, Target, cuda

__all__ = [
    "Backend",
    "CudaDevice",
    "Kind",
    "Language",
    "Limits",
    "Target",
    "arch_here",
    "arch_of_class",
    "cuda",
    "cuda_device",
    "cuda_device_count",
    "cuda_driver_release",
    "device_class",
]
