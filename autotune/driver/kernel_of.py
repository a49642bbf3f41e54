"""Converts what a template returns, a schedule or a source kernel, to a `Kernel`."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from autotune.codegen import kernel_of_function, kernel_of_schedule
from autotune.errors import KernelError
from autotune.kernel import Kernel, SourceKernel
from autotune.lowering import LoweredFunction
from autotune.target import Target
from autotune.te import Schedule

# TVM's name of a function that was given none.
_DEFAULT_NAME = "default_function"


def kernel_of(what: Any, target: Target | str, name: str | None = None) -> Kernel:
    """Return the kernel that ``what`` describes, in the language of ``target``.

    Args:
        what: what a template returns - a `SourceKernel`, or a schedule and the tensors that are
            its arguments - or a lowered function, or a `Kernel`.
        target: the target for which it will be built.
        name: name of the function; by default its own, or ``default_function`` for a schedule.

    Raises:
        KernelError: ``what`` is none of these, or is written in another language.
        InstantiationError: a schedule exceeds a limit of the target; the message names it.
        LoweringError: a schedule cannot be lowered for the target.
    """
    target = target if isinstance(target, Target) else Target(target)
    match what:
        case SourceKernel():
            kernel = what.kernel(target.language)
        case Kernel():
            kernel = what
        case LoweredFunction():
            kernel = kernel_of_function(what, target.language)
        case (Schedule() as schedule, args):
            limits = target.limits if target.backend.on_gpu else None
            kernel = kernel_of_schedule(schedule, args, target, name or _DEFAULT_NAME, limits)
        case (SourceKernel() as source, [*args]) if args == [*source.args]:
            kernel = source.kernel(target.language)
        case (SourceKernel() | Kernel() | LoweredFunction(), _):
            raise KernelError(
                f"a {type(what[0]).__name__} has arguments of its own: build(it), without a list"
            )
        case Schedule():
            raise KernelError("a schedule is built together with its arguments: build(s, [A, B])")
        case _:
            raise KernelError(
                "build: expected a SourceKernel or (schedule, tensors), as templates return them, "
                f"got {_kinds(what)}"
            )
    return replace(kernel, name=name) if name else kernel


def _kinds(what: object) -> str:
    """Name the type of something, and of the parts of a pair."""
    if isinstance(what, tuple):
        return f"({', '.join(_kinds(part) for part in what)})"
    return "None" if what is None else type(what).__name__
