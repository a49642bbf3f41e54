"""TVM's `lower`, which prints what a template returned, a schedule or a hand-written kernel."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from autotune import driver
from autotune.kernel import SourceKernel
from autotune.lowering import LoweredFunction
from autotune.te.schedule import Schedule

__all__ = ["lower"]


def lower(
    inp: Schedule | SourceKernel,
    args: Sequence[Any],
    simple_mode: bool = True,
    name: str = "main",
) -> LoweredFunction | str:
    """Return the loops of a schedule, or the text of a kernel, which has none; print the result.

    Args:
        inp: a schedule, or the kernel that a template returned in its place.
        args: what the function takes.
        simple_mode: accepted.
        name: of the function.
    """
    if isinstance(inp, SourceKernel):
        return inp.text()
    return driver.lower(inp, args, simple_mode, name)
