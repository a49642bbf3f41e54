"""C on the CPU of this machine."""

from __future__ import annotations

import platform

from autotune.target.backends.backend import Backend
from autotune.target.limits import Limits
from autotune.utils.environment import processors

_RECIPE = "autotune.runtime.compile.compilers:c_recipe"


HOST = Backend(
    kinds=("llvm", "c"),
    language="c",
    device="cpu",
    on_gpu=False,
    cxx=False,
    query=lambda index: None,
    arch=platform.machine,
    limits_of=lambda arch: Limits(sm_count=processors()),
    arch_form=None,
    dialect="autotune.codegen.c:C",
    # Which compiler CUDA text would be given to means nothing here.
    recipes={"nvcc": _RECIPE, "nvrtc": _RECIPE},
    suffix=".so",
    loader="autotune.runtime.host.executable:CpuExecutable",
    callee="autotune.runtime.host.callee:host_callee",
    memory="autotune.runtime.arrays.memory:host_memory",
    program="autotune.runtime.host.program:HostProgram",
    ceilings="autotune.runtime.roofline_kernels:for_cpu",
    energy="autotune.runtime.host.rapl:rapl_meter",
    compilers=("nvcc",),
)
