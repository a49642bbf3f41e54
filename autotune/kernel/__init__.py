"""Kernels, the common result of both front ends: source text, launch shapes, typed arguments.

A `SourceKernel` is what a source template returns: a text, and the values of its knobs. A `Kernel`
is what a compiler gets, of either front end; each `KernelCall` of it has its own `Launch`.
"""

from autotune.kernel.kernel import (
    Argument,
    Constant,
    Kernel,
    KernelCall,
    Launch,
    Scalar,
    Workspace,
)
from autotune.kernel.limits import launch_violation, target_violation
from autotune.kernel.scalar import ScalarValue, scalar_value
from autotune.kernel.sizes import Size, Sizes, evaluate
from autotune.kernel.source import SourceKernel, arg, call, constant, workspace

__all__ = [
    "Argument",
    "Constant",
    "Kernel",
    "KernelCall",
    "Launch",
    "Scalar",
    "ScalarValue",
    "Size",
    "Sizes",
    "SourceKernel",
    "Workspace",
    "arg",
    "call",
    "constant",
    "evaluate",
    "launch_violation",
    "scalar_value",
    "target_violation",
    "workspace",
]
