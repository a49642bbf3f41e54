"""Indices that leave 32 bits on their way: such arithmetic is done in 64 bits.

Indices are of int32, and tensors have no more elements than that counts. But ``A[i * i % n]`` may
compute what int32 does not hold before the remainder is taken, and so may a condition. Where the
ranges of the axes show that it does, the operands become int64, as they are in the reference by
which kernels are checked.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from autotune.ir.dtype import INDEX_DTYPE, int_range
from autotune.ir.expr import (
    Add,
    BinaryOp,
    Call,
    Cast,
    Conditional,
    Expr,
    FloorDiv,
    FloorMod,
    IntImm,
    IterVar,
    Max,
    Min,
    Mul,
    Reduce,
    Sub,
    TruncDiv,
    TruncMod,
    Var,
    cast,
)
from autotune.ir.interval import EVERYTHING, Interval, floordiv, union
from autotune.ir.visitor import Rewriter

_WIDE = "int64"
_LOW, _HIGH = int_range(INDEX_DTYPE)


def without_overflow(expr: Expr, axes: Iterable[IterVar]) -> Expr:
    """Return an expression that is equal wherever int32 holds all that it computes of axes.

    Args:
        expr: a value of a compute.
        axes: of the compute, those that it reduces over among them.
    """
    return cast(_Widening(axes).rewrite(expr), expr.dtype)


class _Widening(Rewriter):
    """Computes in int64 what int32 does not hold, and goes on in int32 where it holds it again."""

    def __init__(self, axes: Iterable[IterVar]) -> None:
        self.ranges = {axis.var: _range_of(axis) for axis in axes}
        self.known: dict[Expr, Interval] = {}

    def interval(self, node: Expr) -> Interval:
        """Return what the axes tell of an integer, computed without overflow."""
        found = self.known.get(node)
        if found is None:
            found = self.known[node] = self._interval(node)
        return found

    def _interval(self, node: Expr) -> Interval:
        if isinstance(node, IntImm):
            return node.value, node.value
        if isinstance(node, Var):
            return self.ranges.get(node, EVERYTHING)
        if isinstance(node, Conditional):
            return union(self.interval(node.then), self.interval(node.other))
        rule = _RULES.get(type(node))
        if rule is None or not isinstance(node, BinaryOp):
            return EVERYTHING
        a, b = self.interval(node.a), self.interval(node.b)
        return EVERYTHING if EVERYTHING in (a, b) else rule(a, b)

    def visit_BinaryOp(self, node: BinaryOp) -> Expr:
        """Widen both operands where the result, or one of them, is too large."""
        a, b = self.rewrite(node.a), self.rewrite(node.b)
        is_index = node.a.dtype == INDEX_DTYPE
        if is_index and (_WIDE in (a.dtype, b.dtype) or self._overflows(node)):
            result = type(node).fold(cast(a, _WIDE), cast(b, _WIDE))
            fits = result.dtype == _WIDE and not self._overflows(node)
            return cast(result, node.dtype) if fits else result
        if a is node.a and b is node.b:
            return node
        return type(node).fold(a, b)

    def _overflows(self, node: Expr) -> bool:
        low, high = self.interval(node)
        return (low, high) != EVERYTHING and (low < _LOW or high > _HIGH)

    def visit_Conditional(self, node: Conditional) -> Expr:
        """Give both values the wider dtype."""
        cond, then, other = map(self.rewrite, (node.cond, node.then, node.other))
        if cond is node.cond and then is node.then and other is node.other:
            return node
        if then.dtype != other.dtype:
            then, other = cast(then, _WIDE), cast(other, _WIDE)
        return type(node).fold(cond, then, other)

    def visit_Call(self, node: Call) -> Expr:
        """Pass arguments of the dtypes that the function takes."""
        args = tuple([cast(self.rewrite(each), each.dtype) for each in node.args])
        same = all(new is old for new, old in zip(args, node.args, strict=True))
        return node if same else Call(node.name, args, node.dtype)

    def visit_Cast(self, node: Cast) -> Expr:
        """Convert the exact value."""
        value = self.rewrite(node.value)
        return node if value is node.value else cast(value, node.dtype)

    def visit_Reduce(self, node: Reduce) -> Expr:
        """Leave a reduction: its parts are taken one by one."""
        return node


def _range_of(axis: IterVar) -> Interval:
    dom = axis.dom
    if dom is None or not isinstance(dom.min, IntImm) or not isinstance(dom.extent, IntImm):
        return EVERYTHING
    return dom.min.value, dom.min.value + dom.extent.value - 1


def _product(a: Interval, b: Interval) -> Interval:
    ends = [x * y for x in a for y in b]
    return min(ends), max(ends)


def _quotient(a: Interval, b: Interval) -> Interval:
    divisor = b[0]
    if b[0] != b[1] or divisor <= 0:
        return EVERYTHING
    return floordiv(a, int(divisor))


def _remainder(a: Interval, b: Interval) -> Interval:
    if b[0] != b[1] or b[0] <= 0:
        return EVERYTHING
    return a if a[0] >= 0 and a[1] < b[0] else (min(0, max(a[0], 1 - b[0])), b[0] - 1)


_RULES: dict[type[Expr], Callable[[Interval, Interval], Interval]] = {
    Add: lambda a, b: (a[0] + b[0], a[1] + b[1]),
    Sub: lambda a, b: (a[0] - b[1], a[1] - b[0]),
    Mul: _product,
    FloorDiv: _quotient,
    TruncDiv: lambda a, b: union(_quotient(a, b), (0, 0)) if a[0] < 0 else _quotient(a, b),
    FloorMod: _remainder,
    TruncMod: _remainder,
    Min: lambda a, b: (min(a[0], b[0]), min(a[1], b[1])),
    Max: lambda a, b: (max(a[0], b[0]), max(a[1], b[1])),
}
