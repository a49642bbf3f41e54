"""What both front ends end in: source text, launch shapes and typed arguments."""

from typing import TYPE_CHECKING

from autotune.kernel.kernel import Argument, Kernel, KernelCall, Launch, Workspace
from autotune.kernel.limits import launch_violation
from autotune.kernel.source import SourceKernel, arg, call, workspace
from autotune.migration import resolver

__all__ = [
    "Argument",
    "Kernel",
    "KernelCall",
    "Launch",
    "SourceKernel",
    "Workspace",
    "arg",
    "call",
    "launch_violation",
    "workspace",
]

if not TYPE_CHECKING:
    __getattr__ = resolver(__name__)
