"""Counts the arithmetic of a graph of computes, as AutoTVM does.

Each operator in a value counts as one operation, including comparisons and logic. The arithmetic
of indices is free, and so are casts and calls of functions (but not the computation of their
arguments). Of a Select only the more expensive side counts, of an if_then_else both. A reduction
costs its combiner and its source once for each iteration. Every tensor counts once.
"""

from __future__ import annotations

from collections.abc import Iterable

from autotune.errors import ExpressionError
from autotune.ir import (
    BinaryOp,
    Call,
    Cast,
    Expr,
    IfThenElse,
    Imm,
    IterVar,
    Not,
    ProducerLoad,
    Reduce,
    Select,
    Var,
)
from autotune.te.dag import post_order
from autotune.te.extern import ExternOp
from autotune.te.relation import extent_of
from autotune.te.schedule import Schedule
from autotune.te.tensor import ComputeOp

ADVICE = "say the number of operations in the template by cfg.add_flop(...)"


class FlopError(ExpressionError, RuntimeError):
    """The operations of a graph cannot be counted; the template has to say how many they are."""


class NoArithmetic(FlopError):
    """There are no operations: the computes only move elements."""


def compute_flop(schedule: Schedule) -> int:
    """Return the number of operations of all computes behind a schedule's outputs.

    Raises:
        NoArithmetic: there are none at all.
        FlopError: they cannot be counted: for several outputs, or extents that are not constant.
    """
    total = 0
    for op in post_order(schedule.outputs):
        if isinstance(op, ExternOp):
            raise FlopError(
                f"{op.name} is a te.extern, whose statements are not counted; {ADVICE}"
            )
        if isinstance(op, ComputeOp):
            if len(op.body) != 1:
                raise FlopError(f"{op.name} has {len(op.body)} outputs; {ADVICE}")
            total += _iterations(op.name, op.axis) * _count(op.name, op.body[0])
    if total == 0:
        names = ", ".join(op.name for op in schedule.outputs)
        raise NoArithmetic(f"{names}: there is no arithmetic to count; {ADVICE}")
    return total


def _iterations(name: str, axes: Iterable[IterVar]) -> int:
    result = 1
    for axis in axes:
        extent = extent_of(axis)
        if extent is None:
            raise FlopError(f"{name}: the extent of axis {axis.name!r} is not constant; {ADVICE}")
        result *= extent
    return result


def _count(name: str, node: Expr) -> int:
    match node:
        case Imm() | Var() | ProducerLoad():
            return 0
        case BinaryOp(a, b):
            return 1 + _count(name, a) + _count(name, b)
        case Not(a):
            return 1 + _count(name, a)
        case Cast(value):
            return _count(name, value)
        case Select(cond, then, other):
            return _count(name, cond) + max(_count(name, then), _count(name, other))
        case IfThenElse(cond, then, other):
            return _count(name, cond) + _count(name, then) + _count(name, other)
        case Call(_, args):
            return sum(_count(name, each) for each in args)
        case Reduce(combiner, sources, axes):
            if len(sources) != 1:
                raise FlopError(f"{name} reduces {len(sources)} values together; {ADVICE}")
            each = _count(name, combiner.result[0]) + _count(name, sources[0])
            return _iterations(name, axes) * each
        case _:
            raise FlopError(f"{name}: a {type(node).__name__} cannot be counted; {ADVICE}")
