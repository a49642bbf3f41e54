"""Which weights of a softmax are zero: those of what its definition masks.

A mask is a choice by a condition on indices between a value and minus infinity, whose power is
zero. So is that of a very low number, such as the least float, where it is certain that a row has
a value that is not masked and much larger: of a row that is masked everywhere all weights are
equal, as the definition says.
"""

from __future__ import annotations

from collections.abc import Callable, Set
from math import inf, isfinite, prod

from autotune.ir import (
    Add,
    And,
    Cast,
    Conditional,
    Expr,
    FloatImm,
    IntImm,
    Mul,
    Not,
    Or,
    ProducerLoad,
    Reduce,
    Sub,
    Var,
    const,
    is_float,
    is_int,
)
from autotune.ir.analysis_ranges import never_empty, ranges, without_not
from autotune.ir.dtype import FLOAT_LIMIT, int_range
from autotune.ir.simplify import Simplifier
from autotune.te.relation import extent_of
from autotune.te.tensor import ComputeOp
from autotune.te.weighted_rows import FLOAT, WeightedRows

_TRUE, _FALSE = const(True, "bool"), const(False, "bool")
# By how much the largest value of a row has to exceed another whose power is zero: floats have no
# power of e below -104.
_BELOW = 200.0
# What bounds are known up to.
_LARGE = 1e37


def unmasked(found: WeightedRows) -> Expr | None:
    """Returns where weights can be other than zero, at the axes of a softmax; None: anywhere.

    What is of 16 bits is taken for finite, as a weight of zero times infinity is left out, too.
    """
    mask = _Mask()
    condition = mask.seen(found.value)
    if mask.lowest and not _low_enough(found, mask, condition):
        condition = _Mask(finite=False).seen(found.value)
    return None if isinstance(condition, IntImm) else condition


def _low_enough(found: WeightedRows, mask: _Mask, condition: Expr) -> bool:
    """Return whether powers of the low numbers of a mask are zero in each row."""
    most = greatest(found.value, mask.lowest)
    if mask.lowest & mask.changed:  # such a number may be as low as one that masks
        return False
    if most is None or any(-low < 2 * most + _BELOW for low in mask.lowest):
        return False
    extents = {axis.var: extent_of(axis) for axis in found.axes}
    known = {var: (0, extent - 1) for var, extent in extents.items() if extent}
    simplifier, step = Simplifier(known), found.axes[-1].var
    held = ranges(simplifier, condition, step)
    return step in known and never_empty(simplifier, held, known[step][1] + 1)


class _Mask:
    """Finds the conditions of a mask.

    Args:
        finite: whether low numbers mask, too; ``lowest`` has those that were met, ``changed``
            those to which something is done afterwards, so that they do not mask.
    """

    def __init__(self, finite: bool = True) -> None:
        self.finite = finite
        self.lowest: set[float] = set()
        self.changed: set[float] = set()

    def seen(self, value: Expr) -> Expr:
        """Return where a value can be other than masked."""
        return without_not(self._seen(value, self.finite))

    def _seen(self, value: Expr, finite: bool) -> Expr:
        match value:
            case FloatImm():
                return self._constant(value.value, finite)
            case Conditional(cond, then, other):
                first, second = self._seen(then, finite), self._seen(other, finite)
                if first is second is _TRUE:
                    return _TRUE
                return Or.fold(And.fold(cond, first), And.fold(Not.fold(cond), second))
            case Cast(inner) if is_float(inner.dtype) and value.dtype == FLOAT:
                return self._seen(inner, finite)
            case Mul(a, FloatImm() as b) | Mul(FloatImm() as b, a) if 0 < b.value < inf:
                return self._seen(a, False)
            case Add(a, b):
                first = self._seen(a, False) if greatest(b) is not None else _TRUE
                second = self._seen(b, False) if greatest(a) is not None else _TRUE
                return And.fold(first, second)
            case Sub(a, b) if greatest(b) is not None:
                return self._seen(a, False)
            case _:
                return _TRUE

    def _constant(self, value: float, finite: bool) -> Expr:
        if value == -inf:
            return _FALSE
        if value <= -_BELOW:
            (self.lowest if finite else self.changed).add(value)
        return _FALSE if finite and value <= -_BELOW else _TRUE


def greatest(value: Expr, but: Set[float] = frozenset()) -> float | None:
    """Returns a bound on the size of a value of finite inputs; None if there is none.

    Constants ``but`` are not looked at, nor is minus infinity if there are.
    """
    match value:
        case FloatImm() | IntImm():
            number = float(value.value)
            if but and (number in but or number == -inf):
                return 0.0
            return abs(number) if isfinite(number) else None
        case Var() if is_int(value.dtype):
            return _largest(value.dtype)
        case Conditional(_, a, b):
            return _most(max, greatest(a, but), greatest(b, but))
        case Add(a, b) | Sub(a, b):
            return _most(lambda x, y: x + y, greatest(a, but), greatest(b, but))
        case Mul(a, b):
            return _most(lambda x, y: x * y, greatest(a, but), greatest(b, but))
        case Cast() if is_int(value.dtype):
            return _largest(value.dtype)
        case Cast(inner):
            return greatest(inner, but)
        case ProducerLoad() if value.dtype == "float16":
            return FLOAT_LIMIT["float16"]
        case ProducerLoad():
            return _greatest_sum(value, but)
        case _:
            return None


def _largest(dtype: str) -> float:
    """Return the size of the largest integer of a type, of either sign."""
    return float(max(map(abs, int_range(dtype))))


def _greatest_sum(load: ProducerLoad, but: Set[float]) -> float | None:
    """Return a bound on the size of what is read of a sum."""
    op = load.tensor.op
    body = op.body[0] if isinstance(op, ComputeOp) else None
    if not isinstance(body, Reduce) or body.combiner.name != "sum" or body.init:
        return None
    terms = [extent_of(axis) for axis in body.axes]
    if any(extent is None for extent in terms):
        return None
    count = float(prod(extent or 1 for extent in terms))
    return _most(lambda x, y: x * y, greatest(body.sources[0], but), count)


def _most(of: Callable[[float, float], float], a: float | None, b: float | None) -> float | None:
    """Return a bound of two bounds; None beyond what sums of floats stay far below."""
    found = None if a is None or b is None else of(a, b)
    return None if found is None or found > _LARGE else found
