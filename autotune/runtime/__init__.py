"""Arrays, compiled kernels, and the devices they run on."""

from autotune.runtime.array import NDArray, array, empty, from_dlpack
from autotune.runtime.buffers import Buffers, random_inputs
from autotune.runtime.build_cache import BuildCache
from autotune.runtime.compile import BuildOutput, compile_kernel
from autotune.runtime.device import Device, cpu, cuda, device, gpu
from autotune.runtime.executable import Executable
from autotune.runtime.load import load
from autotune.runtime.timing import Clocks, Sampler, TimeOptions, Timing, summarize, take_timing

__all__ = [
    "Buffers",
    "BuildCache",
    "BuildOutput",
    "Clocks",
    "Device",
    "Executable",
    "NDArray",
    "Sampler",
    "TimeOptions",
    "Timing",
    "array",
    "compile_kernel",
    "cpu",
    "cuda",
    "device",
    "empty",
    "from_dlpack",
    "gpu",
    "load",
    "random_inputs",
    "summarize",
    "take_timing",
]
