"""From what a template returns to a kernel."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from autotune.errors import KernelError
from autotune.kernel import Kernel, SourceKernel
from autotune.target import Target


def kernel_of(what: Any, target: Target | str, name: str | None = None) -> Kernel:
    """Return the kernel that ``what`` describes, for the language of ``target``.

    Args:
        what: a `SourceKernel`, or a `Kernel`, which is returned as it is.
        target: what it will be built for.
        name: a new name for the function.

    Raises:
        KernelError: it is none of these.
        InstantiationError: the target refuses it.
    """
    target = Target(target)
    if isinstance(what, SourceKernel):
        kernel = what.kernel(target.language)
    elif isinstance(what, Kernel):
        kernel = what
    else:
        raise KernelError(f"expected a SourceKernel or a Kernel, got {type(what).__name__}")
    return replace(kernel, name=name) if name else kernel
