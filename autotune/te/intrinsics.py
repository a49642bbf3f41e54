"""Functions on expressions: conditions, divisions, limits of dtypes, variables, thread axes."""

from __future__ import annotations

import math

from autotune.errors import ExpressionError
from autotune.ir import (
    And,
    Call,
    Div,
    Expr,
    FloatImm,
    FloorDiv,
    FloorMod,
    IfThenElse,
    IterVar,
    Max,
    Min,
    Or,
    Range,
    Select,
    TruncDiv,
    TruncMod,
    Var,
    as_expr,
    check_dtype,
    const,
    int_range,
    is_float,
    is_int,
    match_types,
)
from autotune.ir.dtype import FLOAT_LIMIT, element_of
from autotune.te.location import user_line

# The function that `needed` is.
NEEDED = "needed"
THREAD_TAGS = (
    "blockIdx.x", "blockIdx.y", "blockIdx.z", "threadIdx.x", "threadIdx.y", "threadIdx.z",
)  # fmt: skip


def var(name: str = "tindex", dtype: str = "int32") -> Var:
    """Make a variable, such as a symbolic extent."""
    return Var(name, check_dtype(dtype))


def size_var(name: str = "size", dtype: str = "int32") -> Var:
    """Make a variable that is never negative."""
    return Var(name, check_dtype(dtype))


def thread_axis(dom: object = None, tag: str = "", name: str = "") -> IterVar:
    """Make a thread axis to bind loops to: ``thread_axis("blockIdx.x")``.

    ``thread_axis(64, "threadIdx.x")`` or ``thread_axis((0, 64), "threadIdx.x")`` says its extent
    too. Tags are ``blockIdx.x/y/z``, ``threadIdx.x/y/z``, and ``vthread``, a virtual thread, which
    alone may carry a ``name`` of its own.
    """
    if isinstance(dom, str):
        tag, dom = dom, None
    virtual = tag.startswith("vthread") or tag == "cthread"
    if tag not in THREAD_TAGS and not virtual:
        raise ExpressionError(
            f"{user_line()}: thread_axis: expected 'vthread' or one of {', '.join(THREAD_TAGS)}, "
            f"got {tag!r}"
        )
    if isinstance(dom, tuple | list):
        dom = Range(dom[0], as_expr(dom[1]) - as_expr(dom[0]))
    elif dom is not None and not isinstance(dom, Range):
        dom = Range(0, dom)
    kind = "vthread" if virtual else "thread"
    variable = Var((name if virtual else "") or tag, "int32", "thread")
    return IterVar(variable, dom, kind, "vthread" if virtual else tag)


def pair(what: str, a: object, b: object) -> tuple[Expr, Expr]:
    """Bring two operands of the function ``what`` to one dtype."""
    if isinstance(a, int | float) and isinstance(b, int | float):
        a = as_expr(a)
    matched = match_types(a, b)
    if matched is None:
        raise ExpressionError(
            f"{user_line()}: {what}: expected two expressions or numbers, got {a!r} and {b!r}"
        )
    return matched


def if_then_else(cond: object, then: object, other: object) -> Expr:
    """Choose a value; only the one that is chosen is computed, so it may guard a load."""
    return IfThenElse.fold(as_condition("if_then_else", cond), *pair("if_then_else", then, other))


def select(cond: object, then: object, other: object) -> Expr:
    """Choose between two values, both of which may be computed."""
    return Select.fold(as_condition("Select", cond), *pair("Select", then, other))


def needed(cond: object) -> Expr:
    """Say of a reduction, as its ``where``, that terms change nothing where ``cond`` is false.

    They are computed or not: loops end where no term is needed that they have.
    """
    return Call(NEEDED, (as_condition(NEEDED, cond),))


def as_condition(what: str, cond: object) -> Expr:
    """Return a condition, of an integer whether it is not zero."""
    expr = as_expr(cond)
    if expr.dtype == "bool":
        return expr
    if is_int(expr.dtype):
        return expr != 0  # type: ignore[no-any-return]
    raise ExpressionError(f"{user_line()}: {what}: expected a condition, got {expr}")


def all(*conditions: object) -> Expr:
    """Return whether all conditions hold; each is evaluated only if the previous ones hold."""
    return _join(And, "all", conditions)


def any(*conditions: object) -> Expr:
    """Return whether a condition holds; each is evaluated only if no previous one does."""
    return _join(Or, "any", conditions)


def _join(cls: type[And] | type[Or], what: str, conditions: tuple[object, ...]) -> Expr:
    if not conditions:
        raise ExpressionError(f"{user_line()}: te.{what}: expected at least one condition")
    result = as_condition(what, conditions[0])
    for each in conditions[1:]:
        result = cls.fold(result, as_condition(what, each))
    return result


def smaller(first: object, *more: object) -> Expr:
    """Return the smallest of some values."""
    result = as_expr(first)
    for each in more:
        result = Min.fold(*pair("min", result, each))
    return result


def larger(first: object, *more: object) -> Expr:
    """Return the largest of some values."""
    result = as_expr(first)
    for each in more:
        result = Max.fold(*pair("max", result, each))
    return result


def div(a: object, b: object) -> Expr:
    """Divide as C does: towards zero for integers."""
    x, y = pair("div", a, b)
    return (Div if is_float(x.dtype) else TruncDiv).fold(x, y)


def floordiv(a: object, b: object) -> Expr:
    """Divide integers and round towards minus infinity."""
    return FloorDiv.fold(*_ints("floordiv", a, b))


def floormod(a: object, b: object) -> Expr:
    """Return the remainder of `floordiv`."""
    return FloorMod.fold(*_ints("floormod", a, b))


def truncdiv(a: object, b: object) -> Expr:
    """Divide integers and round towards zero."""
    return TruncDiv.fold(*_ints("truncdiv", a, b))


def truncmod(a: object, b: object) -> Expr:
    """Return the remainder of `truncdiv`."""
    return TruncMod.fold(*_ints("truncmod", a, b))


def ceildiv(a: object, b: object) -> Expr:
    """Divide integers and round towards plus infinity."""
    x, y = _ints("ceildiv", a, b)
    return FloorDiv.fold(x + (y - 1), y)


# An index is never negative, so rounding down and towards zero are the same.
indexdiv = floordiv
indexmod = floormod


def _ints(what: str, a: object, b: object) -> tuple[Expr, Expr]:
    x, y = pair(what, a, b)
    if not is_int(x.dtype):
        raise ExpressionError(f"{user_line()}: {what}: expected integers, got {x.dtype}")
    return x, y


def min_value(dtype: str) -> Expr:
    """Return the smallest finite value of ``dtype``."""
    if is_float(dtype):
        return FloatImm(-FLOAT_LIMIT[element_of(dtype)], dtype)
    return const(int_range(dtype)[0], dtype)


def max_value(dtype: str) -> Expr:
    """Return the largest finite value of ``dtype``."""
    if is_float(dtype):
        return FloatImm(FLOAT_LIMIT[element_of(dtype)], dtype)
    return const(int_range(dtype)[1], dtype)


def least(dtype: str) -> Expr:
    """Return what no value of ``dtype`` is below: minus infinity of floats.

    Maxima begin there. TVM's begin at `min_value`, which is wrong where all are minus infinity.
    """
    return const(-math.inf, dtype) if is_float(dtype) else min_value(dtype)


def most(dtype: str) -> Expr:
    """Return what no value of ``dtype`` is above: infinity of floats."""
    return const(math.inf, dtype) if is_float(dtype) else max_value(dtype)
