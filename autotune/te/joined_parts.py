"""Reductions that join what parts of rows of a softmax have: maxima, sums of powers, products."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from autotune.ir import Expr, const
from autotune.te import math as te_math
from autotune.te.base_two import LOG2_E
from autotune.te.intrinsics import larger, least, min_value
from autotune.te.reduction import comm_reducer
from autotune.te.weighted_rows import FLOAT

# The attribute of a reduction that joins parts, whose powers are of differences to their maxima.
JOINS_PARTS = "joins_parts"


def power_of_e(x: Expr) -> Expr:
    """Return a power of e, as one of 2, which GPUs have an instruction for."""
    return te_math.exp2_flushed(x * LOG2_E)


def _join(a: Sequence[Expr], b: Sequence[Expr]) -> tuple[Expr, ...]:
    """Return what two parts of a row have together: maximum, sum of powers, products."""
    return _join_by(power_of_e, a, b)


def _join_in_base_two(a: Sequence[Expr], b: Sequence[Expr]) -> tuple[Expr, ...]:
    """Do as `_join` with maxima that are times log2(e)."""
    return _join_by(te_math.exp2_flushed, a, b)


def _join_by(
    power: Callable[[Expr], Expr], a: Sequence[Expr], b: Sequence[Expr]
) -> tuple[Expr, ...]:
    most = larger(a[0], b[0], min_value(FLOAT))
    first, second = power(a[0] - most), power(b[0] - most)
    rest = zip(a[1:], b[1:], strict=True)
    return most, *(one * first + other * second for one, other in rest)


def _nothing(most: str, *others: str) -> tuple[Expr, ...]:
    """Return what changes no part."""
    return least(most), *(const(0, each) for each in others)


JOINED = comm_reducer(_join, _nothing, "online")
JOINED_IN_BASE_TWO = comm_reducer(_join_in_base_two, _nothing, "online")
