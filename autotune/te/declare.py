"""Placeholders and computes, and the checks of their definitions."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from types import FunctionType
from typing import Any

from autotune.errors import ExpressionError
from autotune.ir import (
    Expr,
    IntImm,
    IterVar,
    Range,
    Reduce,
    Var,
    Visitor,
    as_expr,
    check_dtype,
    is_int,
    same,
    whole,
)
from autotune.te.location import locate_error, user_line
from autotune.te.reduction import NUMBERED, UNNAMED
from autotune.te.tensor import Attrs, ComputeOp, Dim, Extent, PlaceholderOp, Tensor, TensorSlice
from autotune.utils.check import is_whole

# Indices are of int32.
_MOST = 2**31 - 1
_TAG: ContextVar[str] = ContextVar("te_tag", default="")


@contextmanager
def tag_scope(tag: str) -> Iterator[None]:
    """Give every compute made inside the ``with`` block this tag.

    Example::

        with te.tag_scope("injective"):
            B = te.compute(...)
    """
    token = _TAG.set(tag)
    try:
        yield
    finally:
        _TAG.reset(token)


def placeholder(shape: object, dtype: str = "float32", name: str = "placeholder") -> Tensor:
    """Declare a tensor that the caller of the kernel supplies."""
    return PlaceholderOp(name, check_shape(name, shape), check_dtype(dtype)).outputs[0]


def compute(
    shape: object,
    fcompute: Callable[..., object],
    name: str = "compute",
    tag: str = "",
    attrs: Attrs | None = None,
    varargs_names: Sequence[str] | None = None,
) -> Any:
    """Define a tensor by the value at each of its indices.

    ``fcompute`` takes one index for each dimension (its parameters name the axes) or ``*indices``
    (the axes are then called ``i0``, ``i1``, ...). It returns a value, a reduction such as
    ``te.sum(...)``, or several of either: then the result is a tuple of tensors.

    Example::

        C = te.compute((n, m), lambda i, j: te.sum(A[i, k] * B[k, j], axis=k), name="C")
    """
    extents = check_shape(name, shape)
    names = _axis_names(name, fcompute, len(extents), varargs_names)
    axis = tuple(
        [
            IterVar(Var(each, "int32", "data"), Range(0, extent), "data")
            for each, extent in zip(names, extents, strict=True)
        ]
    )
    try:
        value = fcompute(*[each.var for each in axis])
    except ExpressionError as error:
        raise ExpressionError(locate_error(error, name)) from error
    op = make_compute(name, axis, value, tag, attrs)
    return op.outputs[0] if len(op.outputs) == 1 else op.outputs


def make_compute(
    name: str,
    axis: tuple[IterVar, ...],
    value: object,
    tag: str = "",
    attrs: Attrs | None = None,
) -> ComputeOp:
    """Make the operation whose axes exist already; check it as `compute` does."""
    values = value if isinstance(value, tuple | list) else (value,)
    if not values:
        raise ExpressionError(f"{user_line()}: {name}: the compute returns no value")
    body = tuple([_value(name, each) for each in values])
    _check_body(name, axis, body)
    return ComputeOp(name, tag or _TAG.get(), dict(attrs or {}), axis, body)


def check_shape(name: str, shape: object) -> tuple[Extent, ...]:
    """Return a shape as a tuple of ints and symbolic expressions; a single extent is one axis."""
    extents = tuple(shape) if isinstance(shape, tuple | list) else (shape,)
    return tuple([_check_extent(name, extent) for extent in extents])


def _check_extent(name: str, extent: object) -> Extent:
    if (type(extent) is int or type(extent) is Dim) and 0 < extent <= _MOST:
        return int(extent)
    size = extent.value if isinstance(extent, IntImm) else extent
    if is_whole(size, _MOST + 1):  # as an index it would be another number
        raise ExpressionError(
            f"{user_line()}: {name}: every extent of the shape must be at most {_MOST}, as "
            f"indices have 32 bits, got {size}"
        )
    try:
        expr = as_expr(whole(extent))
    except ExpressionError:
        expr = None
    if expr is None or not is_int(expr.dtype) or (isinstance(expr, IntImm) and expr.value < 1):
        raise ExpressionError(
            f"{user_line()}: {name}: every extent of the shape must be an integer of at least 1, "
            f"got {extent!r}"
        )
    return expr.value if isinstance(expr, IntImm) else expr


def _axis_names(
    name: str, fcompute: Callable[..., object], ndim: int, varargs_names: Sequence[str] | None
) -> list[str]:
    names, varargs = _parameters(fcompute)
    if varargs or (not names and ndim):
        more = ndim - len(names)
        if varargs_names is not None and len(varargs_names) != more:
            raise ExpressionError(
                f"{user_line()}: {name}: varargs_names must have {more} names, got {varargs_names}"
            )
        names += varargs_names or [f"i{i}" for i in range(len(names), ndim)]
    if len(names) != ndim or (ndim and not varargs and not _parameters(fcompute)[0]):
        raise ExpressionError(
            f"{user_line()}: {name}: the shape has {ndim} dimensions, but the function takes "
            f"{len(_parameters(fcompute)[0])} indices"
        )
    return names


def _parameters(function: Callable[..., object]) -> tuple[list[str], bool]:
    """Return the parameters that have no default, and whether there are ``*varargs``."""
    if type(function) is FunctionType:
        code = function.__code__
        count = code.co_argcount - len(function.__defaults__ or ())
        return list(code.co_varnames[:count]), bool(code.co_flags & inspect.CO_VARARGS)
    parameters = inspect.signature(function).parameters.values()
    positional = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    names = [p.name for p in parameters if p.kind in positional and p.default is p.empty]
    return names, any(p.kind is p.VAR_POSITIONAL for p in parameters)


def _value(name: str, value: object) -> Expr:
    if isinstance(value, Tensor) and not value.shape:
        loaded: Expr = value()
        return loaded
    if isinstance(value, Tensor | TensorSlice):
        raise ExpressionError(
            f"{user_line()}: {name}: the compute returns {value!r}; index all its dimensions"
        )
    try:
        return as_expr(value)
    except ExpressionError:
        raise ExpressionError(
            f"{user_line()}: {name}: the compute must return expressions, got {value!r}"
        ) from None


def _check_body(name: str, axis: tuple[IterVar, ...], body: tuple[Expr, ...]) -> None:
    first = body[0]
    reduce_axis: tuple[IterVar, ...] = ()
    if isinstance(first, Reduce):
        reduce_axis = first.axes
        _make_distinct(axis, reduce_axis)
        for other in body[1:]:
            _check_same_reduction(name, first, other)
    elif any(isinstance(value, Reduce) for value in body):
        raise ExpressionError(
            f"{user_line()}: {name}: either all outputs are reductions or none is"
        )
    names = [each.var.name for each in axis + reduce_axis]
    if len(set(names)) < len(names):
        twice = next(each for each in names if names.count(each) > 1)
        raise ExpressionError(
            f"{user_line()}: {name}: two of its axes are called {twice!r}; give each its own name"
        )
    data = {each.var for each in axis}
    inner = data | {each.var for each in reduce_axis}
    check = _BodyCheck(name, inner)
    for value in body[:1] if reduce_axis else body:
        check.top(value, data)


def _make_distinct(axis: tuple[IterVar, ...], reduce_axis: tuple[IterVar, ...]) -> None:
    """Number the reduction axes that have no name, or one that is taken."""
    taken = {each.var.name for each in axis}
    for each in reduce_axis:
        stem = each.var.name if each.var.axis != UNNAMED else ""
        count = 0
        while each.var.name in taken:
            count += 1
            each.var.name = f"{stem}_{count}" if stem else f"rv{count}"
            each.var.axis = NUMBERED if stem else UNNAMED
        taken.add(each.var.name)


def _check_same_reduction(name: str, first: Reduce, other: Expr) -> None:
    if (
        isinstance(other, Reduce)
        and other.combiner is first.combiner
        and other.axes == first.axes
        and same(other.sources, first.sources)
    ):
        return
    raise ExpressionError(
        f"{user_line()}: {name}: the outputs of one compute must come from one reduction (one "
        "call of one comm_reducer)"
    )


class _BodyCheck(Visitor):
    """Finds invalid parts of a body."""

    def __init__(self, name: str, known: set[Var]) -> None:
        self.name = name
        self.known = known

    def top(self, value: Expr, data: set[Var]) -> None:
        """Check the value of an output, the only place where a reduction is allowed."""
        if not isinstance(value, Reduce):
            self.visit(value)
            return
        for source in (*value.sources, value.condition):
            self.visit(source)
        init = _BodyCheck(self.name, data)
        for each in value.init:
            init.visit(each)

    def visit_Reduce(self, node: Reduce) -> None:
        """Refuse a reduction below the top."""
        raise ExpressionError(
            f"{user_line()}: {self.name}: a reduction must be the whole value of a compute; make "
            f"a tensor of {node} first, and compute with that"
        )

    def visit_Var(self, node: Var) -> None:
        """Refuse an axis that belongs to no loop around it."""
        if node.axis == "" or node in self.known:
            return
        if node.axis in ("reduce", UNNAMED, NUMBERED):
            raise ExpressionError(
                f"{user_line()}: {self.name}: reduction axis {node.name!r} is used outside a "
                "reduction over it; name it in the axis=... of the reduction"
            )
        raise ExpressionError(
            f"{user_line()}: {self.name}: axis {node.name!r} belongs to another compute"
        )
