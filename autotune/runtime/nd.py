"""The array functions under the name that TVM scripts use: ``autotune.nd.array``."""

from autotune.runtime.array import NDArray, array, empty, from_dlpack
from autotune.runtime.device import cpu, cuda, device, gpu

__all__ = ["NDArray", "array", "cpu", "cuda", "device", "empty", "from_dlpack", "gpu"]
