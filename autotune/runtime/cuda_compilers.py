"""How CUDA C++ is compiled: by nvcc, or by NVRTC.

nvcc runs through PyCUDA where there is a driver, and is called directly where there is none.

NVRTC is used through its C library and not through cuda-core's `Program`: three calls are needed,
whose C names have not changed since CUDA 11, while the Python names moved with every release of
cuda-core. The extra ``[nvrtc]`` (cuda-core with its CUDA wheels) is one of the places the library
is looked for; a toolkit is another.
"""

from __future__ import annotations

import itertools
import time
from importlib.util import find_spec
from pathlib import Path

from autotune.errors import CompilerMissing
from autotune.kernel.kernel import Kernel
from autotune.runtime.compilers import Recipe, check_compiler, run_in
from autotune.runtime.nvrtc import run_nvrtc
from autotune.runtime.nvrtc_headers import HEADERS
from autotune.runtime.toolchain import nvcc_toolchain
from autotune.target import Target
from autotune.utils import environment

_REPORT = ("-Xptxas", "-v")


def nvcc_recipe(kernel: Kernel, target: Target) -> Recipe:
    """Compile CUDA C++ with nvcc to a cubin for the target's architecture.

    A kernel whose flags name an architecture (``-arch=sm_90a``, ``-gencode=...``) gets that one.
    """
    toolchain = nvcc_toolchain()
    nvcc = toolchain.command[0]
    arch = [] if _flag_arch(kernel.flags) else [f"-arch={target.arch}"]
    options = [*arch, *_REPORT, *kernel.flags]

    def compile_in(folder: Path, timeout_s: float) -> str:
        started = time.monotonic()
        # Not at the top: it takes longer to import than NVRTC to compile a kernel.
        from autotune.runtime import pycuda_nvcc

        if pycuda_nvcc.has_pycuda():
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
    """Compile CUDA C++ with NVRTC to a cubin, the same as nvcc's of the same release.

    Raises:
        CompilerMissing: the library was not found.
    """
    library = find_nvrtc()
    status = library.stat()
    arch = _flag_arch(kernel.flags) or target.arch
    options = [f"--gpu-architecture={arch}", "--ptxas-options=-v", *_nvrtc_flags(kernel.flags)]
    options += [f"-I{folder}" for folder in _header_folders()]

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

    identity = ("nvrtc", str(library), f"{status.st_size} {status.st_mtime_ns}", *options)
    return Recipe(kernel, identity, ".cubin", compile_in)


def find_nvrtc() -> Path:
    """Return the path of the NVRTC library: of Python's CUDA wheels, or of a toolkit.

    Raises:
        CompilerMissing: there is none.
    """
    folders = [
        *(root / sub for root in _wheel_roots() for sub in ("cu13/lib", "cuda_nvrtc/lib")),
        *(
            root / sub
            for root in environment.toolkit_roots()
            for sub in ("lib64", "lib", "targets/x86_64-linux/lib", "targets/sbsa-linux/lib")
        ),
    ]
    for folder in folders:
        found = sorted(folder.glob("libnvrtc.so*"), key=lambda path: (len(path.name), path.name))
        if found:
            return found[-1].resolve()
    raise CompilerMissing(
        f"no NVRTC library: looked in {', '.join(map(str, folders))}; install it with "
        "`pip install 'autotune[nvrtc]'`, or use compiler='nvcc'"
    )


def _wheel_roots() -> list[Path]:
    spec = find_spec("nvidia")
    return [Path(p) for p in spec.submodule_search_locations or ()] if spec else []


def _header_folders() -> list[Path]:
    """Return where cuda_fp16.h is: NVRTC brings no headers of its own."""
    wheels = (root / sub for root in _wheel_roots() for sub in ("cu13", "cuda_runtime"))
    roots = itertools.chain(environment.toolkit_roots(), wheels)
    found = (root / "include" for root in roots if (root / "include/cuda_fp16.h").exists())
    return list(itertools.islice(found, 1))


def _flag_arch(flags: tuple[str, ...]) -> str | None:
    """Return the architecture that flags name, if they name one."""
    for flag, following in itertools.zip_longest(flags, flags[1:], fillvalue=""):
        name, _, value = flag.partition("=")
        if name in ("-arch", "--gpu-architecture"):
            return value or following
        if name in ("-gencode", "--generate-code"):
            return (value or following).rpartition("code=")[2].strip("[]")
    return None


def _nvrtc_flags(flags: tuple[str, ...]) -> list[str]:
    """Return nvcc's flags in NVRTC's spelling, without those that have no meaning there."""
    kept: list[str] = []
    words = iter(flags)
    for flag in words:
        name, separator, value = flag.partition("=")
        if name in ("-arch", "--gpu-architecture", "-gencode", "--generate-code"):
            # The architecture is passed already; a value in the next word goes with its flag.
            if not separator:
                next(words, "")
        elif name in ("-Xptxas", "--ptxas-options"):
            kept.append(f"--ptxas-options={value or next(words, '')}")
        elif name not in ("-O3", "-O2", "--expt-relaxed-constexpr", "--expt-extended-lambda"):
            kept.append(flag)
    return kept
