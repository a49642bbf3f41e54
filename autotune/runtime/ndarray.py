"""TVM's name for the place of the arrays and of what makes them."""

from autotune.runtime.array import NDArray, array, empty, from_dlpack
from autotune.runtime.device import cpu, cuda, device, gpu

__all__ = ["NDArray", "array", "cpu", "cuda", "device", "empty", "from_dlpack", "gpu"]
