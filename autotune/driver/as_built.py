"""The kernel that is compiled for another one: its launches may overlap with the kernel before."""

from __future__ import annotations

from autotune.kernel.dependent_launch import waiting
from autotune.kernel.kernel import Kernel
from autotune.target import Target


def as_built(kernel: Kernel, target: Target) -> Kernel:
    """Return a kernel as it is compiled and launched for a target.

    On a CUDA device each call waits at its start for the kernel before it, and so may be launched
    while that one ends (`autotune.kernel.dependent_launch`); for the host it is returned as it is.
    Hashes of records are those of the kernel given.
    """
    return waiting(kernel) if target.backend.on_gpu else kernel
