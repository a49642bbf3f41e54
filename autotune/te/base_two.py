"""Values times log2(e), so that their powers of e are powers of two, which GPUs compute.

The factor is put where it costs nothing: into another constant factor, or into what a mask fills.
"""

from __future__ import annotations

from math import e, inf, isinf, log2

from autotune.ir import Add, Conditional, Expr, FloatImm, Mul, Sub
from autotune.ir.dtype import FLOAT_LIMIT
from autotune.te.masked import greatest
from autotune.te.weighted_rows import FLOAT

LOG2_E = log2(e)


def in_base_two(value: Expr) -> Expr | None:
    """Returns a value of finite inputs times log2(e); None if it might become too large.

    A number that a mask fills may be the least float: it stays that.
    """
    scaled = _Scaled()
    found = scaled.of(value)
    # Of two such numbers one might have been far below the other.
    return found if len(scaled.least) <= 1 else None


def factor_of(value: Expr) -> tuple[float, Expr]:
    """Returns a positive constant and what has to be multiplied by it to give a value.

    So a maximum of products is that of the other factors, which is multiplied once. What a mask
    fills may be infinite, which no factor changes.
    """
    match value:
        case Mul(a, FloatImm() as b) | Mul(FloatImm() as b, a) if 0 < b.value < inf:
            return b.value, a
        case Conditional(cond, then, FloatImm() as other) if isinf(other.value):
            factor, rest = factor_of(then)
            return factor, type(value)(cond, rest, other)
        case Conditional(cond, FloatImm() as then, other) if isinf(then.value):
            factor, rest = factor_of(other)
            return factor, type(value)(cond, then, rest)
        case _:
            return 1.0, value


class _Scaled:
    """Scales values, and notes which numbers became the least float."""

    def __init__(self) -> None:
        self.least: set[float] = set()

    def of(self, value: Expr) -> Expr | None:
        """Return a value times log2(e)."""
        match value:
            case FloatImm():
                return self._number(value.value)
            case Conditional(cond, then, other):
                first, second = self.of(then), self.of(other)
                return (
                    None if first is None or second is None else type(value)(cond, first, second)
                )
            case Add(a, b) | Sub(a, b) if greatest(a) is None and greatest(b) is None:
                return None  # of two low numbers, whose sum might be none any more
            case Add(a, b) | Sub(a, b):
                first, second = self.of(a), self.of(b)
                return None if first is None or second is None else type(value)(first, second)
            case Mul(a, FloatImm() as b) | Mul(FloatImm() as b, a) if greatest(value) is not None:
                return Mul(a, FloatImm(b.value * LOG2_E, FLOAT))
            case _:
                return value * LOG2_E if greatest(value) is not None else None

    def _number(self, value: float) -> Expr | None:
        limit = FLOAT_LIMIT[FLOAT]
        if value == -inf or abs(value) * LOG2_E <= limit:
            return FloatImm(value * LOG2_E, FLOAT)
        if value < 0:
            self.least.add(value)
            return FloatImm(-limit, FLOAT)
        return None
