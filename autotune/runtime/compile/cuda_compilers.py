"""Compilation of CUDA C++ by nvcc or NVRTC.

nvcc is run by PyCUDA if there is a driver, and directly otherwise.

NVRTC is used through its C library, not through cuda-core's `Program`: only three calls are
needed, whose C names have not changed since CUDA 11, while the Python names changed with every
release of cuda-core. The library is searched in the CUDA wheels that the extra ``[nvrtc]``
installs, and in a toolkit.
"""

from __future__ import annotations

import re
import time
from dataclasses import replace
from functools import cache
from importlib.util import find_spec
from pathlib import Path

from autotune.errors import CompilerMissing
from autotune.kernel.kernel import Kernel
from autotune.runtime.compile.compilers import Recipe, check_compiler, run_in
from autotune.runtime.compile.cubin import marks
from autotune.runtime.compile.nvrtc import run_nvrtc
from autotune.runtime.compile.nvrtc_flags import flag_arch, nvrtc_flags
from autotune.runtime.compile.nvrtc_headers import HEADERS
from autotune.runtime.compile.toolchain import nvcc_toolchain
from autotune.target import Target
from autotune.utils import environment

_REPORT = ("-Xptxas", "-v")
_HEADER = "cuda_fp16.h"
_TOOLKIT_LIBRARIES = ("lib64", "lib", "targets/x86_64-linux/lib", "targets/sbsa-linux/lib")


def nvcc_recipe(kernel: Kernel, target: Target) -> Recipe:
    """Compile CUDA C++ with nvcc to a cubin for the target's architecture.

    A kernel whose flags name an architecture (``-arch=sm_90a``, ``-gencode=...``) gets that one.
    """
    kernel = instantiate(kernel)
    toolchain = nvcc_toolchain()
    nvcc = toolchain.command[0]
    arch = [] if flag_arch(kernel.flags) else [f"-arch={target.arch}"]
    options = [*arch, *_REPORT, *kernel.flags]

    def compile_in(folder: Path, timeout_s: float) -> str:
        started = time.monotonic()
        # Not at the top: it takes longer to import than NVRTC to compile a kernel.
        from autotune.runtime.compile import pycuda_nvcc

        if pycuda_nvcc.has_pycuda_compiler():
            argv, completed, cubin = pycuda_nvcc.nvcc_through_pycuda(
                kernel.source, nvcc, options, folder, timeout_s
            )
        else:
            (folder / "kernel.cu").write_text(kernel.source, "utf-8")
            argv = [nvcc, "--cubin", *options, "kernel.cu", "-o", "out.cubin"]
            completed = run_in(argv, folder, timeout_s)
            cubin = b""
        check_compiler(kernel.name, argv, completed, time.monotonic() - started)
        if cubin:
            (folder / "out.cubin").write_bytes(cubin)
        return completed.output

    return Recipe(kernel, ("nvcc", nvcc, toolchain.version, *options), ".cubin", compile_in)


def nvrtc_recipe(kernel: Kernel, target: Target) -> Recipe:
    """Compile CUDA C++ with NVRTC to a cubin.

    Its instructions are nvcc's where both are of one release, and that is 13.1 or later: no
    default of the two differs that would change them. What is known to be left:

    - Up to release 13.0 NVRTC computes addresses in shared memory with 64 bits, so that kernels
      with shared memory get other instructions; no flag changes that.
    - Functions of cuda_fp16.h and cuda_bf16.h are part of NVRTC, not text that it compiles; for
      sm_100 their uses may be scheduled differently.
    - NVRTC keeps constants at namespace scope that nothing reads: data beside the same code.

    So times and answers of one log should come from one of the two.

    Raises:
        CompilerMissing: the library was not found.
    """
    kernel = instantiate(kernel)
    library = find_nvrtc()
    headers = _header_folder(library)
    arch = flag_arch(kernel.flags) or target.arch
    options = [f"--gpu-architecture={arch}", "--ptxas-options=-v", *nvrtc_flags(kernel.flags)]
    options += [f"--include-path={headers}"] if headers else []

    def compile_in(folder: Path, timeout_s: float) -> str:
        request = {
            "library": str(library),
            "source": kernel.source,
            "options": options,
            "headers": HEADERS,
            "out": str(folder / "out.cubin"),
        }
        started = time.monotonic()
        completed = run_nvrtc(request, timeout_s)
        shown = ["nvrtc", *options]
        check_compiler(kernel.name, shown, completed, time.monotonic() - started)
        return completed.output

    parts = (library, headers / _HEADER) if headers else (library,)
    identity = ("nvrtc", *map(_state, parts), *options)
    return Recipe(kernel, identity, ".cubin", compile_in)


def instantiate(kernel: Kernel) -> Kernel:
    """Return the kernel with those instances of templates in its text that will be launched."""
    text = marks(kernel)
    if not text:
        return kernel
    standard = any(re.match(r"--?std\b", flag) for flag in kernel.flags)
    flags = kernel.flags if standard else (*kernel.flags, "-std=c++17")
    return replace(kernel, source=kernel.source + text, flags=flags)


def _state(path: Path) -> str:
    """Return what changes when a file is replaced by that of another release."""
    status = path.stat()
    return f"{path} {status.st_size} {status.st_mtime_ns}"


def find_nvrtc() -> Path:
    """Return the path of the NVRTC library: of Python's CUDA wheels, or of a toolkit.

    Raises:
        CompilerMissing: the library was not found.
    """
    roots = environment.toolkit_roots()
    wheels = [root / sub for root in _wheel_roots() for sub in ("cu13/lib", "cuda_nvrtc/lib")]
    return _library_in((*wheels, *(root / sub for root in roots for sub in _TOOLKIT_LIBRARIES)))


@cache
def _library_in(folders: tuple[Path, ...]) -> Path:
    for folder in folders:
        found = sorted(folder.glob("libnvrtc.so*"), key=lambda path: (len(path.name), path.name))
        if found:
            return found[-1].resolve()
    raise CompilerMissing(
        f"no NVRTC library: looked in {', '.join(map(str, folders))}; install it with "
        "`pip install 'autotune[nvrtc]'`, or use compiler='nvcc'"
    )


@cache
def _wheel_roots() -> tuple[Path, ...]:
    spec = find_spec("nvidia")
    return tuple(map(Path, spec.submodule_search_locations or ())) if spec else ()


def _header_folder(library: Path) -> Path | None:
    """Return where cuda_fp16.h is, if anywhere; NVRTC has no headers of its own.

    Those that were installed with the library come first: they are of its release.
    """
    wheels = (root / sub for root in _wheel_roots() for sub in ("cu13", "cuda_runtime"))
    return _headers_in((library.parent.parent, *environment.toolkit_roots(), *wheels))


@cache
def _headers_in(roots: tuple[Path, ...]) -> Path | None:
    folders = (root / "include" for root in roots)
    return next((folder for folder in folders if (folder / _HEADER).exists()), None)
