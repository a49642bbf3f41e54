"""TVM's short name for `autotune.runtime.ndarray`."""

from autotune.runtime.ndarray import NDArray, array, cpu, cuda, device, empty, from_dlpack, gpu

__all__ = ["NDArray", "array", "cpu", "cuda", "device", "empty", "from_dlpack", "gpu"]
