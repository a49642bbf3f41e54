"""TVM's short name for `autotune.runtime.ndarray`."""

from typing import TYPE_CHECKING

from autotune.migration import resolver
from autotune.runtime.ndarray import NDArray, array, cpu, cuda, device, empty, from_dlpack, gpu

__all__ = ["NDArray", "array", "cpu", "cuda", "device", "empty", "from_dlpack", "gpu"]

if not TYPE_CHECKING:
    __getattr__ = resolver(__name__)
