"""What the fallback schedules of all targets ask about loops."""

from __future__ import annotations

import math
from collections.abc import Sequence

from autotune.ir import Expr, IterVar, Var

# Loops of no more steps are written out.
UNROLLED = 16
# The innermost axes of what windows go over: rows and columns.
WINDOW_AXES = 2


def extent_or_one(axis: IterVar) -> int:
    """Return the extent of an axis; 1 if it is not known."""
    value = getattr(axis.extent, "value", None)
    return int(value) if value is not None else 1


def size_of(axes: Sequence[IterVar]) -> int:
    """Return how many iterations loops have together."""
    return math.prod(extent_or_one(axis) for axis in axes)


def first_divisor(extent: int, wanted: Sequence[int]) -> int:
    """Return the first of the wanted factors that divides an extent; 1 if none does."""
    return next((n for n in wanted if extent % n == 0), 1)


def are_vars(indices: Sequence[Expr], own: Sequence[Var]) -> bool:
    """Return whether indices are these very variables, in order."""
    return len(indices) == len(own) and all(a is b for a, b in zip(indices, own, strict=True))
