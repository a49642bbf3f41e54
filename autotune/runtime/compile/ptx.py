"""PTX of CUDA kernels, from which drivers make code for devices that are not there yet."""

from __future__ import annotations

from pathlib import Path

from autotune.errors import CompilerCrashed
from autotune.kernel.kernel import Kernel
from autotune.runtime.compile.compilers import run_compiler
from autotune.runtime.compile.cuda_compilers import instantiate
from autotune.runtime.compile.toolchain import nvcc_toolchain
from autotune.utils.scratch import temporary_folder


def ptx_of(kernel: Kernel, arch: str, timeout_s: float) -> bytes:
    """Return the PTX of a kernel for an architecture and all later ones.

    Args:
        kernel: in CUDA C++; its flags name no architecture.
        arch: such as ``"sm_90"``.
        timeout_s: seconds the compiler may take.

    Raises:
        CompileError: see `compile_kernel`.
    """
    whole = instantiate(kernel)
    virtual = arch.replace("sm_", "compute_")
    with temporary_folder("build") as text:
        folder = Path(text)
        (folder / "kernel.cu").write_text(whole.source, "utf-8")
        nvcc = nvcc_toolchain().command[0]
        argv = [nvcc, "--ptx", f"-arch={virtual}", *whole.flags, "kernel.cu", "-o", "out.ptx"]
        log = run_compiler(kernel.name, argv, folder, timeout_s)
        if not (folder / "out.ptx").exists():
            raise CompilerCrashed(f"kernel {kernel.name!r}: nvcc wrote no PTX: {log.strip()}")
        return (folder / "out.ptx").read_bytes()
