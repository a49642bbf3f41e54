"""What nvcc makes of kernels."""

import re
import shutil
import subprocess

import pytest

needs_nvcc = pytest.mark.skipif(shutil.which("nvcc") is None, reason="needs nvcc")


def spilled(kernel, folder):
    """Compile a kernel for Hopper; return the bytes that each of its functions spills."""
    text = folder / "kernel.cu"
    text.write_text(kernel.source)
    arch = [] if any("-arch" in flag for flag in kernel.flags) else ["-arch=sm_90"]
    command = ["nvcc", "-cubin", *arch, *kernel.flags, "-Xptxas", "-v", text]
    done = subprocess.run([*command, "-o", folder / "out"], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    # These say that the assembler waits for products where the kernel does not.
    assert "(C75" not in done.stderr
    found = [int(n) for n in re.findall(r"(\d+) bytes spill stores", done.stderr)]
    assert found, "the assembler says nothing of spilled registers"
    return found
