"""TVM's `nd`: arrays and devices."""

from typing import TYPE_CHECKING

from autotune.runtime.arrays.array import NDArray, array, empty, from_dlpack
from autotune.runtime.device import cpu, cuda, device, gpu
from autotune.tvm.names import resolver

__all__ = ["NDArray", "array", "cpu", "cuda", "device", "empty", "from_dlpack", "gpu"]

if not TYPE_CHECKING:
    __getattr__ = resolver(__name__)
