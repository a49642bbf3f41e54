"""Arrays, compiled kernels, and the devices they run on.

`compile_kernel` makes machine code, `load` an `Executable` of it, and a `Module` is what users
call with an `NDArray` for each argument. `host` and `nvidia` have what differs between devices;
`take_timing` measures on either.
"""

from autotune.runtime.arrays.array import NDArray, array, empty, from_dlpack
from autotune.runtime.arrays.buffers import Buffers, random_inputs
from autotune.runtime.arrays.convert import convert
from autotune.runtime.compile.build_cache import BuildCache
from autotune.runtime.compile.compile_kernel import BuildOutput, compile_kernel
from autotune.runtime.compile.cpu_flags import cpu_instructions
from autotune.runtime.descriptor import Descriptor, describe
from autotune.runtime.device import Device, cpu, cuda, device, gpu
from autotune.runtime.evaluator import BenchmarkResult
from autotune.runtime.executable import Executable
from autotune.runtime.load import load
from autotune.runtime.module import Module, load_module
from autotune.runtime.roofline import Ceilings, ceilings_of
from autotune.runtime.timing import Clocks, Sampler, TimeOptions, Timing, summarize, take_timing

__all__ = [
    "BenchmarkResult",
    "Buffers",
    "BuildCache",
    "BuildOutput",
    "Ceilings",
    "Clocks",
    "Descriptor",
    "Device",
    "Executable",
    "Module",
    "NDArray",
    "Sampler",
    "TimeOptions",
    "Timing",
    "array",
    "ceilings_of",
    "compile_kernel",
    "convert",
    "cpu",
    "cpu_instructions",
    "cuda",
    "describe",
    "device",
    "empty",
    "from_dlpack",
    "gpu",
    "load",
    "load_module",
    "random_inputs",
    "summarize",
    "take_timing",
]
