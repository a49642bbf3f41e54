"""Computes whose elements are stored where they say, in an array that keeps all others.

The body of such a compute is a `Call` of ``store_at`` on a value, its place in the array and
whether it is stored at all, so that whatever looks at bodies or rewrites them sees all three.
Lowering makes the store of it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod
from typing import Any, cast

from autotune.ir import Call, Expr, as_expr
from autotune.te.declare import compute
from autotune.te.tensor import ComputeOp, Operation, Tensor

_STORE_AT, _SHAPE = "store_at", "written_shape"


def store_at(
    shape: Sequence[int],
    extents: Sequence[int],
    fcompute: Callable[..., tuple[Expr, Sequence[Any], Expr]],
    name: str = "written",
    varargs_names: Sequence[str] | None = None,
) -> Tensor:
    """Define elements that are written to an array; all others stay as they are.

    It is the output of a kernel, and nothing reads it there; lowering refuses all else.

    Args:
        shape: of the array, which is the argument of the kernel.
        extents: of the axes of what is written.
        fcompute: takes an index for each of the extents; returns a value, its indices in the
            array, and whether it is stored. No two that are stored have the same place.
        name: of the result.
        varargs_names: as of `compute`.

    Returns:
        the elements, in the shape of ``extents``.

    Example::

        rows = store_at((1024, 64), (n, 64), lambda i, j: (
            new[i, j], (at[i], j), te.all(at[i] >= 0, at[i] < 1024)))
    """
    strides = [prod(shape[axis + 1 :]) for axis in range(len(shape))]

    def body(*axes: Expr) -> Expr:
        value, indices, stored = fcompute(*axes)
        flat = as_expr(0)
        for index, stride in zip(indices, strides, strict=True):
            flat = flat + as_expr(index) * stride
        return Call(_STORE_AT, (as_expr(value), flat, as_expr(stored)))

    names = varargs_names or [f"i{i}" for i in range(len(extents))]
    return cast(Tensor, compute(
        tuple(extents), body, name, attrs={_SHAPE: tuple(shape)}, varargs_names=names
    ))  # fmt: skip


def written_shape(op: Operation) -> tuple[int, ...] | None:
    """Return the shape of the array that `store_at` writes to; None of other operations."""
    return op.attrs.get(_SHAPE) if isinstance(op, ComputeOp) else None


def as_store(value: Expr) -> tuple[Expr, Expr, Expr] | None:
    """Return the value, the place and the condition of a body of `store_at`; None of others."""
    if not isinstance(value, Call) or value.name != _STORE_AT:
        return None
    element, place, stored = value.args
    return element, place, stored
