"""TVM's `runtime.ndarray`."""

from autotune.runtime.arrays.array import NDArray, array, empty, from_dlpack
from autotune.runtime.device import cpu, cuda, device, gpu

__all__ = ["NDArray", "array", "cpu", "cuda", "device", "empty", "from_dlpack", "gpu"]
