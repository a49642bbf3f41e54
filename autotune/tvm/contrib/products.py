"""Products of matrices that a library computes on the CPU, for the modules named after one."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from autotune.errors import ExpressionError
from autotune.te.extern import extern
from autotune.te.registered_call import registered_call
from autotune.te.tensor import Tensor

__all__ = ["product"]


def product(
    name: str,
    lhs: Tensor,
    rhs: Tensor,
    transa: bool,
    transb: bool,
    dtype: str | None,
    options: Mapping[str, Any],
) -> Tensor:
    """Return the product that a registered function computes.

    Args:
        name: of the function.
        lhs: a matrix, or a batch of them.
        rhs: the same.
        transa: whether left factors are transposed.
        transb: whether right factors are transposed.
        dtype: of the product; by default that of the factors.
        options: of `te.extern`.

    Raises:
        ExpressionError: the shapes do not fit.
    """
    *batch, rows, depth = _turned(lhs, transa)
    *other, below, columns = _turned(rhs, transb)
    known = isinstance(depth, int) and isinstance(below, int)
    same = not known or depth == below
    if not same or len(batch) != len(other) or len(batch) > 1:
        shown = [f"{list(each.shape)}{' transposed' * t}" for each, t in
                 ((lhs, transa), (rhs, transb))]  # fmt: skip
        raise ExpressionError(
            f"{name}: expected matrices, or batches of them, whose rows and columns fit, got "
            f"{shown[0]} and {shown[1]}"
        )
    most = [other[i] if each == 1 else each for i, each in enumerate(batch)]
    made: Tensor = extern(
        (*most, rows, columns),
        [lhs, rhs],
        lambda ins, outs: registered_call(name, *ins, outs[0], transa, transb),
        **{"name": "C", "dtype": dtype or lhs.dtype, **options},
    )
    return made


def _turned(tensor: Tensor, transposed: bool) -> list[Any]:
    shape = list(tensor.shape)
    if transposed:
        shape[-2:] = reversed(shape[-2:])
    return shape if len(shape) > 1 else [1, *shape]
