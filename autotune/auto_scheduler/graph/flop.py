"""Floating-point operations of a graph, counted as TVM's auto-scheduler does (``flop_ct``).

An operator counts only if one of its operands is of the kind of number (float, int, ...) that the
operation produces, so the arithmetic of indices and paddings is free; exp and its like are free
too. So are, unlike in TVM, products of zeros that a transposed convolution puts between elements,
whether a schedule multiplies them or not (`autotune.te.phases`). An operation's attribute ``FLOP``
says how many there are instead.
"""

from __future__ import annotations

from collections.abc import Iterable
from math import nan, prod

from autotune.ir import (
    BinaryOp,
    Call,
    Cast,
    Conditional,
    Expr,
    IfThenElse,
    Imm,
    IterVar,
    Not,
    ProducerLoad,
    Reduce,
    Var,
)
from autotune.te.phases import phases_of
from autotune.te.relation import extent_of
from autotune.te.tensor import ComputeOp, Operation

UNKNOWN = -1.0


def count_flop(ops: Iterable[Operation]) -> float:
    """Return the number of operations of a graph, or -1 where it cannot be told."""
    total = 0.0
    for op in ops:
        if isinstance(op, ComputeOp):
            given = op.attrs.get("FLOP")
            total += _of(op) if given is None else float(given)
    return total if total == total else UNKNOWN


def _of(op: ComputeOp) -> float:
    kind, found = _kind(op.outputs[0].dtype), phases_of(op)
    each = sum(_count(value, kind) for value in op.body)
    zeros = 1 if found is None else prod([phase.stride for phase in found.phases])
    return _iterations(op.axis) * each / zeros


def _kind(dtype: str) -> str:
    """Return a dtype without its width."""
    return dtype.rstrip("0123456789")


def _iterations(axes: Iterable[IterVar]) -> float:
    result = 1.0
    for axis in axes:
        extent = extent_of(axis)
        result *= nan if extent is None else extent
    return result


def _count(node: Expr, kind: str) -> float:
    match node:
        case Imm() | Var() | ProducerLoad():
            return 0
        case BinaryOp(a, b):
            own = kind in (_kind(a.dtype), _kind(b.dtype))
            return own + _count(a, kind) + _count(b, kind)
        case Not(a):
            return (kind == _kind(a.dtype)) + _count(a, kind)
        case Cast(value):
            return _count(value, kind)
        case IfThenElse(cond, then, other):
            return _count(cond, kind) + _count(then, kind) + _count(other, kind)
        case Conditional(cond, then, other):
            return _count(cond, kind) + max(_count(then, kind), _count(other, kind))
        case Call(_, args):
            return sum(_count(each, kind) for each in args)
        case Reduce(combiner, sources, axes):
            each = sum(_count(e, kind) for e in (*combiner.result, *sources))
            return _iterations(axes) * each
        case _:
            return nan
