"""Arithmetic on whole tensors, with numpy's broadcasting: each operator makes a new compute."""

from __future__ import annotations

import operator
from collections.abc import Callable
from numbers import Real

from autotune.errors import ExpressionError
from autotune.ir import Expr, Operand, as_expr, cast, same
from autotune.te.declare import compute
from autotune.te.location import user_line
from autotune.te.tensor import BROADCAST, Extent, Tensor


def broadcast_shape(what: str, a: Tensor, b: Tensor) -> tuple[Extent, ...]:
    """Return the shape in which two tensors meet; dimensions are matched from the last one."""
    ndim = max(a.ndim, b.ndim)
    left = (1,) * (ndim - a.ndim) + a.shape
    right = (1,) * (ndim - b.ndim) + b.shape
    shape: list[Extent] = []
    for x, y in zip(left, right, strict=True):
        if not (_is_one(x) or _is_one(y) or same(as_expr(x), as_expr(y))):
            raise ExpressionError(
                f"{user_line()}: {what}: shapes do not fit: {a.name} has {a.shape}, {b.name} has "
                f"{b.shape}"
            )
        shape.append(y if _is_one(x) else x)
    return tuple(shape)


def _is_one(extent: Extent) -> bool:
    return isinstance(extent, int) and extent == 1


def read_broadcast(
    tensor: Tensor, indices: tuple[Expr, ...], shape: tuple[Extent, ...] | None = None
) -> Expr:
    """Read a tensor at the indices of a shape that it broadcasts to.

    Where the tensor has an extent of 1 it is read at 0; if ``shape``, the one it broadcasts to, is
    given and has 1 there as well, then at the index, which is 0.
    """
    skip = len(indices) - tensor.ndim
    own = indices[skip:]
    wide = [True] * tensor.ndim if shape is None else [not _is_one(n) for n in shape[skip:]]
    dimensions = zip(tensor.shape, own, wide, strict=True)
    at = [0 if _is_one(n) and stretched else i for n, i, stretched in dimensions]
    value: Expr = tensor(*at)
    return value


def broadcast(
    function: Callable[..., Expr], a: object, b: object, name: str, tag: str = "broadcast"
) -> Tensor:
    """Apply a function of two expressions to two tensors, or to a tensor and a number."""
    for operand in (a, b):
        if not isinstance(operand, Tensor | Operand | Real):
            raise ExpressionError(
                f"{user_line()}: {name}: expected a tensor or a number, got {operand!r}"
            )
    if isinstance(a, Tensor) and isinstance(b, Tensor):
        x, y = a, b
        shape = broadcast_shape(name, x, y)

        def both(*i: Expr) -> Expr:
            return function(read_broadcast(x, i, shape), read_broadcast(y, i, shape))

        return _elements(shape, both, name, tag)
    tensor = a if isinstance(a, Tensor) else b
    if not isinstance(tensor, Tensor):
        raise ExpressionError(
            f"{user_line()}: {name}: one of two operands must be a tensor, got {a!r} and {b!r}"
        )

    def one(*i: Expr) -> Expr:
        return function(tensor(*i), b) if tensor is a else function(a, tensor(*i))

    return _elements(tensor.shape, one, name, "elemwise")


def _elements(
    shape: tuple[Extent, ...], value: Callable[..., Expr], name: str, tag: str
) -> Tensor:
    axes = [f"ax{i}" for i in range(len(shape))]
    result: Tensor = compute(shape, value, name, tag, varargs_names=axes)
    return result


def _enter(key: str, function: Callable[..., Expr]) -> None:
    BROADCAST[key] = lambda a, b: broadcast(function, a, b, f"T_{key}")


def _cast(tensor: Tensor, dtype: str) -> Tensor:
    if tensor.dtype == dtype:
        return tensor

    def convert(*i: Expr) -> Expr:
        return cast(tensor(*i), dtype)

    return _elements(tensor.shape, convert, "T_cast", "elemwise")


_enter("add", operator.add)
_enter("subtract", operator.sub)
_enter("multiply", operator.mul)
_enter("divide", operator.truediv)
_enter("floor_divide", operator.floordiv)
_enter("floor_mod", operator.mod)
_enter("less", operator.lt)
_enter("less_equal", operator.le)
_enter("greater", operator.gt)
_enter("greater_equal", operator.ge)
BROADCAST["cast"] = _cast
