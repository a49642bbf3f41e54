"""TVM's `lower`, which prints what a template returned, a schedule or a hand-written kernel."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from autotune import driver
from autotune.errors import LoweringError
from autotune.kernel import SourceKernel
from autotune.lowering import LoweredFunction
from autotune.te.schedule import Schedule
from autotune.utils.check import Check

__all__ = ["lower"]


def lower(
    inp: Schedule | SourceKernel,
    args: Sequence[Any],
    name: str = "main",
    binds: object = None,
    simple_mode: bool = False,
) -> LoweredFunction | str:
    """Return the loops of a schedule, or the text of a kernel, which has none; print the result.

    Args:
        inp: a schedule, or the kernel that a template returned in its place.
        args: what the function takes.
        name: of the function.
        binds: None: buffers are declared by the lowering itself.
        simple_mode: accepted.

    Raises:
        LoweringError: buffers are given.
    """
    if binds:
        Check(LoweringError, "lower").refuse("binds", "None, as buffers are not declared", binds)
    if isinstance(inp, SourceKernel):
        return inp.text()
    return driver.lower(inp, args, simple_mode, name)
