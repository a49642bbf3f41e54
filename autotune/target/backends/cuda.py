"""CUDA on NVIDIA's devices, and the same text on the CPU by the emulator."""

from __future__ import annotations

from dataclasses import replace

from autotune.target.backends.backend import Backend
from autotune.target.limits import limits_of_arch
from autotune.target.query import cuda_device

# The oldest architecture that CUDA 13 compiles for, so a machine without a device still builds.
_OLDEST = "sm_75"


def _arch() -> str:
    device = cuda_device()
    return device.arch if device else _OLDEST


CUDA = Backend(
    kinds=("cuda",),
    language="cuda",
    device="cuda",
    on_gpu=True,
    cxx=True,
    query=cuda_device,
    arch=_arch,
    limits_of=limits_of_arch,
    arch_form=(r"sm_[1-9][0-9]{1,2}[af]?", "a value such as -arch=sm_90"),
    dialect="autotune.codegen.cuda:CUDA",
    recipes={
        "nvcc": "autotune.runtime.compile.cuda_compilers:nvcc_recipe",
        "nvrtc": "autotune.runtime.compile.cuda_compilers:nvrtc_recipe",
    },
    suffix=".cubin",
    loader="autotune.runtime.nvidia.executable:CudaExecutable",
    callee="autotune.runtime.nvidia.callee:cuda_callee",
    memory="autotune.runtime.nvidia.driver:cuda_memory",
    program="autotune.runtime.nvidia.program:CudaProgram",
    ceilings="autotune.runtime.roofline_kernels:for_cuda",
    energy="autotune.runtime.nvidia.energy:nvml_meter",
    compilers=("nvrtc", "nvcc"),
)
_EMULATED_RECIPE = "autotune.runtime.compile.compilers:emulated_recipe"
# Targets with ``-emulate``.
EMULATED = replace(
    CUDA,
    device="cpu",
    recipes={"nvcc": _EMULATED_RECIPE, "nvrtc": _EMULATED_RECIPE},
    suffix=".so",
    loader="autotune.runtime.host.executable:emulated_executable",
    callee="autotune.runtime.host.callee:emulated_callee",
    memory="autotune.runtime.arrays.memory:host_memory",
    program="autotune.runtime.host.program:HostProgram",
    energy="autotune.runtime.energy:no_emulated_meter",
    compilers=("nvcc",),
)
