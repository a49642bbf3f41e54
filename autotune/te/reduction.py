"""Reductions: their axes, and what combines the values."""

from __future__ import annotations

import functools
import logging
from collections.abc import Callable
from functools import cache
from numbers import Integral
from operator import add
from typing import Any

from autotune.errors import ExpressionError
from autotune.ir import (
    Add,
    Combiner,
    Expr,
    IntImm,
    IterVar,
    Max,
    Min,
    Operand,
    Range,
    Reduce,
    Var,
    as_expr,
    cast,
    const,
    is_int,
    reads_in,
    whole,
)
from autotune.te.intrinsics import larger, least, most, smaller
from autotune.te.location import user_line

logger = logging.getLogger("autotvm")

# Marks the variable of a reduction axis that the user gave no name.
UNNAMED = "reduce, unnamed"
# ... whose name another one of its operation has, so that it was numbered.
NUMBERED = "reduce, numbered"


def reduce_axis(dom: object, name: str | None = None) -> IterVar:
    """Make an axis to reduce over; ``dom`` is ``(min, end)``, as in ``range``, or an extent.

    Example::

        k = te.reduce_axis((0, 64), name="k")
        B = te.compute((n,), lambda i: te.sum(A[i, k], axis=k))
    """
    kind, domain = "reduce" if name else UNNAMED, _domain(dom)
    extent = domain.extent
    if isinstance(extent, IntImm) and extent.value < 0:  # over none, the result is the identity
        raise ExpressionError(f"{user_line()}: reduce_axis: {dom!r} ends before it begins")
    return IterVar(Var(name or "rv", "int32", kind), domain, "reduce")


def _domain(dom: object) -> Range:
    """Return the values of a reduction axis; raise if their number is no 32-bit integer."""
    if isinstance(dom, Range):
        return dom
    low, end = map(whole, dom if isinstance(dom, tuple | list) and len(dom) == 2 else (0, dom))
    for each in (low, end):
        fits = isinstance(each, Integral) and -(2**31) <= int(each) < 2**31
        is_index = isinstance(each, Operand) and is_int(each.to_expr().dtype)
        if not fits and not is_index:
            raise ExpressionError(
                f"{user_line()}: reduce_axis: expected an extent, or (first, end), as 32-bit "
                f"integers, got {dom!r}"
            )
    extent = as_expr(end) - as_expr(low)
    reads = reads_in(extent)
    if reads:
        raise ExpressionError(
            f"{user_line()}: reduce_axis: the number of iterations, {extent}, depends on "
            f"values of {reads[0].tensor.name}; expected a constant, or a size of te.var; a "
            "kernel of sparse data is written as an autotune.SourceKernel"
        )
    return Range(low, extent)


def comm_reducer(
    fcombine: Callable[..., object], fidentity: Callable[..., object], name: str = "custom"
) -> Callable[..., Any]:
    """Make a reduction from a commutative, associative function and its identity.

    ``fcombine(x, y)`` combines two values, or two tuples of values; ``fidentity(*dtypes)`` gives
    the value (or tuple) that changes nothing. The reduction is then called as `te.sum` is; of
    values, without an axis, it combines these.

    Example, the index and value of the largest element::

        argmax = te.comm_reducer(
            lambda x, y: (te.Select(x[1] >= y[1], x[0], y[0]), te.max(x[1], y[1])),
            lambda t0, t1: (te.const(-1, t0), te.min_value(t1)),
        )
        I, V = te.compute((n,), lambda i: argmax((idx[i, k], val[i, k]), axis=k))
    """

    def reducer(
        expr: object, axis: object, *more: object, where: object = None, init: object = None
    ) -> Any:
        if not _is_axes(axis) and not isinstance(axis, Var):
            return functools.reduce(fcombine, (axis, *more), expr)
        where, init = _options(more, where, init)
        several = isinstance(expr, tuple | list)
        sources = tuple(map(as_expr, _as_tuple(expr)))
        combiner = _custom(fcombine, fidentity, tuple(e.dtype for e in sources), not several)
        return make_reduce(combiner, sources, axis, where, init)

    reducer.__name__ = name
    return reducer


def _custom(
    fcombine: Callable[..., object],
    fidentity: Callable[..., object],
    dtypes: tuple[str, ...],
    single: bool,
) -> Combiner:
    x, y = _operand_names(fcombine)
    suffixes = [""] if single else [f"_{i}" for i in range(len(dtypes))]
    lhs = tuple(map(Var, [x + each for each in suffixes], dtypes))
    rhs = tuple(map(Var, [y + each for each in suffixes], dtypes))
    result = fcombine(lhs[0], rhs[0]) if single else fcombine(lhs, rhs)
    identity = fidentity(*dtypes)
    results, identities = _as_tuple(result), _as_tuple(identity)
    if len(results) != len(dtypes) or len(identities) != len(dtypes):
        raise ExpressionError(
            f"{user_line()}: comm_reducer: {len(dtypes)} values are reduced together, but the "
            f"combiner returns {len(results)} and the identity {len(identities)}"
        )
    return Combiner(
        "custom",
        lhs,
        rhs,
        tuple(cast(as_expr(e), t) for e, t in zip(results, dtypes, strict=True)),
        tuple(cast(as_expr(e), t) for e, t in zip(identities, dtypes, strict=True)),
    )


def _operand_names(fcombine: Callable[..., object]) -> tuple[str, str]:
    """Return what the combiner calls its operands: workload texts show it."""
    code = getattr(fcombine, "__code__", None)
    names: list[str] = list(code.co_varnames[: code.co_argcount]) if code is not None else []
    return (names[0], names[1]) if len(names) == 2 else ("x", "y")


def _is_axes(axis: object) -> bool:
    """Return whether the second argument is what to reduce over, not one more value."""
    return isinstance(axis, IterVar | list | tuple)


def _options(more: tuple[object, ...], where: object, init: object) -> tuple[object, object]:
    """Return the condition and the beginning of a reduction, which may be given by position."""
    if len(more) > 2:
        raise ExpressionError(
            f"{user_line()}: a reduction takes a value, axes, where and init, got {more[2]!r} too"
        )
    found = (*more, *(where, init)[len(more) :])
    return found[0], found[1]


def _as_tuple(value: object) -> tuple[object, ...]:
    return tuple(value) if isinstance(value, tuple | list) else (value,)


def make_reduce(
    combiner: Combiner, sources: tuple[Expr, ...], axis: object, where: object, init: object
) -> Expr | tuple[Expr, ...]:
    """Build the reduction; several sources give a tuple of values. No axes: the sources as are."""
    axes = tuple(axis) if isinstance(axis, tuple | list) else (axis,)
    for each in axes:
        if not isinstance(each, IterVar) or each.kind != "reduce":
            raise ExpressionError(
                f"{user_line()}: the axis of a reduction must come from te.reduce_axis, "
                f"got {each!r}"
            )
    condition = const(True, "bool") if where is None else as_expr(where)
    start = tuple(
        cast(as_expr(e), source.dtype)
        for e, source in zip(() if init is None else _as_tuple(init), sources, strict=False)
    )
    if not axes:
        return sources[0] if len(sources) == 1 else sources
    values = tuple(
        Reduce(combiner, sources, axes, condition, i, start) for i in range(len(sources))
    )
    return values[0] if len(values) == 1 else values


@cache
def _simple(name: str, dtype: str) -> Combiner:
    x, y = Var("x", dtype), Var("y", dtype)
    result = {"sum": Add, "min": Min, "max": Max}[name](x, y)
    identity = {"sum": lambda t: const(0, t), "min": most, "max": least}[name](dtype)
    return Combiner(name, (x,), (y,), (result,), (identity,))


def _reduce(name: str, expr: object, axis: object, where: object, init: object) -> Expr:
    source = as_expr(expr)
    found = make_reduce(_simple(name, source.dtype), (source,), axis, where, init)
    assert isinstance(found, Expr)
    return found


def sum(
    expr: object, axis: object, *more: object, where: object = None, init: object = None
) -> Expr:
    """Sum over one or more reduction axes, where ``where`` holds, beginning with ``init``.

    A sum of bools counts them, in int32. Of two or more values, without an axis, their sum.
    """
    if not _is_axes(axis) and not isinstance(axis, Var):  # a variable is meant as an axis
        if isinstance(axis, Integral):
            logger.warning(
                "%s: te.sum: %r is no te.reduce_axis: as in TVM, it is added to the value",
                user_line(),
                axis,
            )
        return functools.reduce(add, map(as_expr, (axis, *more)), as_expr(expr))
    source = as_expr(expr)
    if source.dtype == "bool":
        source = cast(source, "int32")
    return _reduce("sum", source, axis, *_options(more, where, init))


def min(
    expr: object, axis: object, *more: object, where: object = None, init: object = None
) -> Expr:
    """Find the minimum over reduction axes; or, of two or more values, the smallest."""
    if not _is_axes(axis):
        return smaller(expr, axis, *more)
    return _reduce("min", expr, axis, *_options(more, where, init))


def max(
    expr: object, axis: object, *more: object, where: object = None, init: object = None
) -> Expr:
    """Find the maximum over reduction axes; or, of two or more values, the largest."""
    if not _is_axes(axis):
        return larger(expr, axis, *more)
    return _reduce("max", expr, axis, *_options(more, where, init))
