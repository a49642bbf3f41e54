"""Operators of TVM's `topi` that are made of others, or are exact here."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from autotune import te
from autotune.errors import ExpressionError
from autotune.ir import Expr, check_dtype
from autotune.ir import cast as convert
from autotune.te.tensor import Tensor
from autotune.topi import elemwise
from autotune.topi.elemwise import elementwise, erf, exp, tanh
from autotune.utils.check import Check, is_whole

__all__ = [
    "const_vector", "fast_erf", "fast_exp", "fast_tanh", "fixed_point_multiply", "shape",
    "tensordot",
]  # fmt: skip

# TVM approximates these by polynomials; here they are the functions themselves.
fast_erf, fast_exp, fast_tanh = erf, exp, tanh


def cast(x: object, dtype: str, span: object = None) -> object:
    """Convert each element of a tensor, or one number of statements written by hand."""
    del span
    return elemwise.cast(x, dtype) if isinstance(x, Tensor) else convert(x, check_dtype(dtype))


def shape(array: Tensor, dtype: str = "int32") -> Tensor:
    """Return the extents of a tensor as a tensor."""
    extents = list(array.shape)

    def extent(i: Expr) -> Expr:
        found = te.const(0, dtype)
        for axis, each in enumerate(extents):
            found = te.if_then_else(i == axis, te.const(0, dtype) + each, found)
        return found

    found: Tensor = te.compute((len(extents),), extent, name="T_shape")
    return found


def const_vector(vector: npt.ArrayLike, name: str = "const_vector") -> Tensor:
    """Return a tensor of the numbers of a vector, written into the kernel."""
    numbers = np.asarray(vector)
    if numbers.ndim != 1:
        Check(ExpressionError, "const_vector").refuse("vector", "a vector of numbers", vector)
    kind = check_dtype(numbers.dtype)

    def number(i: Expr) -> Expr:
        found = te.const(numbers[-1].item(), kind)
        for place in range(len(numbers) - 1):
            found = te.Select(i == place, te.const(numbers[place].item(), kind), found)
        return found

    found: Tensor = te.compute(numbers.shape, number, name=name)
    return found


def fixed_point_multiply(x: Tensor, multiplier: int, shift: int) -> Tensor:
    """Multiply integers by ``multiplier * 2 ** (shift - 31)``, rounded to the nearest, halves up.

    Args:
        x: a tensor of int32.
        multiplier: with 31 bits behind its binary point.
        shift: by how many powers of 2 the product grows.
    """
    check = Check(ExpressionError, "fixed_point_multiply")
    if x.dtype != "int32":
        check.refuse("x", "a tensor of int32", x)
    # Beyond these the product, or the half that rounds it, has no 64 bits.
    shift = check.whole("shift", shift, -31, 31)
    left, right = max(shift, 0), 31 + max(-shift, 0)
    factor = te.const(check.whole("multiplier", multiplier), "int64")
    half = te.const(1 << (right - 1), "int64")

    def scaled(value: Expr) -> Expr:
        product = (te.cast(value, "int64") << te.const(left, "int64")) * factor
        return te.cast((product + half) >> te.const(right, "int64"), "int32")

    return elementwise(x, scaled, "fixed_point_multiply")


def tensordot(a: Tensor, b: Tensor, axes: int | Sequence[Sequence[int]] = 2) -> Tensor:
    """Sum products over some axes of two tensors, as numpy's `tensordot` does.

    Args:
        a, b: the tensors.
        axes: how many, the last of ``a`` and the first of ``b``; or two lists of them.

    Raises:
        ExpressionError: there are no such axes, or they have other extents.
    """
    over_a, over_b = _axes(a, b, axes)
    summed = [te.reduce_axis((0, a.shape[axis]), name="k") for axis in over_a]
    free_a = [axis for axis in range(len(a.shape)) if axis not in over_a]
    free_b = [axis for axis in range(len(b.shape)) if axis not in over_b]
    extents = [*(a.shape[axis] for axis in free_a), *(b.shape[axis] for axis in free_b)]

    def product(*indices: Expr) -> Expr:
        at_a = {
            **dict(zip(free_a, indices, strict=False)),
            **dict(zip(over_a, summed, strict=True)),
        }
        rest = indices[len(free_a) :]
        at_b = {**dict(zip(free_b, rest, strict=True)), **dict(zip(over_b, summed, strict=True))}
        value = a(*(at_a[i] for i in sorted(at_a))) * b(*(at_b[i] for i in sorted(at_b)))
        return te.sum(value, axis=summed) if summed else value

    found: Tensor = te.compute(tuple(extents), product, name="T_tensordot")
    return found


def _axes(a: Tensor, b: Tensor, axes: object) -> tuple[list[int], list[int]]:
    """Return the axes to be summed over, of each tensor."""
    check = Check(ExpressionError, "tensordot")
    expected = "a number of axes of both tensors, or a list of them for each, of equal extents"
    if is_whole(axes, 0):
        count = int(axes)
        over_a, over_b = list(range(len(a.shape) - count, len(a.shape))), list(range(count))
    elif isinstance(axes, Sequence) and len(axes) == 2:
        over_a, over_b = ([each] if is_whole(each) else each for each in axes)
        for tensor, over in ((a, over_a), (b, over_b)):
            rank = len(tensor.shape)
            if not isinstance(over, Sequence) or not all(
                is_whole(axis, -rank) and axis < rank for axis in over
            ):
                check.refuse("axes", expected, axes)
        over_a = [axis % len(a.shape) for axis in over_a]
        over_b = [axis % len(b.shape) for axis in over_b]
    else:
        check.refuse("axes", expected, axes)
    fits = (
        len(over_a) == len(over_b) and min([0, *over_a]) >= 0 and max([-1, *over_b]) < len(b.shape)
    )
    if not fits or any(
        str(a.shape[i]) != str(b.shape[j]) for i, j in zip(over_a, over_b, strict=True)
    ):
        check.refuse("axes", expected, axes)
    return over_a, over_b
