"""Operators of ``relay`` itself: arithmetic, shapes, reductions."""

from __future__ import annotations

import builtins
import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from autotune.errors import GraphError
from autotune.graph import Constant, TensorType, Value, apply, ops
from autotune.tvm.relay.arguments import Numbers, check_values, whole_numbers
from autotune.tvm.relay.coordinates import *
from autotune.tvm.relay.coordinates import __all__ as _coordinates
from autotune.tvm.relay.elementwise import *
from autotune.tvm.relay.elementwise import __all__ as _elementwise
from autotune.tvm.relay.elementwise import add, divide, exp, log, multiply, sqrt, subtract
from autotune.tvm.relay.function import Tuple, flattened
from autotune.tvm.relay.indexing import *
from autotune.tvm.relay.indexing import __all__ as _indexing
from autotune.tvm.relay.rearranged import (
    repeat,
    reshape,
    reverse,
    split,
    strided_slice,
    take,
    tile,
    where,
)
from autotune.tvm.relay.variable import OpenVar, Var
from autotune.utils.check import Check

# Tensors to be joined: a relay tuple, or any nesting of tuples and lists.
Parts = Tuple[Value] | Sequence[object]
_LARGEST = float(np.finfo("float32").max)


def var(
    name_hint: str, type_annotation: object = None, shape: object = None, dtype: str = "float32"
) -> Var:
    """Declare an input or parameter.

    Without a shape it is a parameter whose shape the first layer that takes it says.

    Raises:
        GraphError: there are two shapes, or a wrong one.
    """
    Check(GraphError, "var").kind("name_hint", name_hint, str, "a text")
    if type_annotation is not None and shape is not None:
        raise GraphError(f"var {name_hint!r}: expected type_annotation or shape, got both")
    if isinstance(type_annotation, TensorType):
        return Var(name_hint, type_annotation)
    given = shape if shape is not None else type_annotation
    if given is None:
        if dtype == "float32":
            return OpenVar(name_hint)
        given = ()
    extents = whole_numbers(f"var {name_hint!r}", "shape", given)
    return Var(name_hint, TensorType(extents, dtype))


def const(value: object, dtype: str | None = None) -> Constant:
    """Make a constant; Python's floats are float32 and its ints int32, as in TVM."""
    check = Check(GraphError, "const")
    try:
        numbers = np.asarray(value.numpy() if hasattr(value, "numpy") else value)
    except ValueError:  # rows of unequal lengths
        check.refuse("value", "a number or an array of numbers", value)
    if numbers.dtype.kind in "OUSMm":
        check.refuse("value", "a number or an array of numbers", value)
    if dtype is None and not isinstance(value, np.ndarray | np.generic):
        dtype = {"float64": "float32", "int64": "int32"}.get(numbers.dtype.name)
    if not _fit(numbers, dtype):
        check.refuse("value", f"numbers that {dtype} holds", value)
    return Constant.of(numbers, dtype=dtype)


def _fit(numbers: np.ndarray[Any, Any], dtype: str | None) -> bool:
    """Return whether a dtype has such large numbers; others would wrap around or be infinite."""
    if dtype is None or numbers.dtype.kind not in "iuf" or not numbers.size:
        return True
    if "int" in dtype:
        bounds = np.iinfo(dtype)
        return bool(bounds.min <= numbers.min() and numbers.max() <= bounds.max)
    finite = numbers[np.isfinite(numbers)]
    return dtype != "float32" or not finite.size or bool(np.abs(finite).max() <= _LARGEST)


def _reduction(kind: type[ops.Reduction]) -> Callable[..., Value]:
    name = kind.name

    def operator(
        data: Value, axis: Numbers | None = None, keepdims: bool = False, exclude: bool = False
    ) -> Value:
        check_values(name, data=data)
        axes = None if axis is None else whole_numbers(name, "axis", axis)
        if exclude:
            for each in axes or ():
                Check(GraphError, name).whole("axis", each, -data.type.ndim, data.type.ndim - 1)
            inside = {a % data.type.ndim for a in axes or ()}
            axes = tuple(a for a in range(data.type.ndim) if a not in inside)
        return apply(kind(axes, keepdims), data)

    operator.__name__ = operator.__qualname__ = name
    operator.__doc__ = f"Take the ``{name}`` over axes; over all by default."
    return operator


sum, mean, max, min, prod = map(_reduction, (ops.Sum, ops.Mean, ops.Max, ops.Min, ops.Prod))
argmax, argmin = map(_reduction, (ops.Argmax, ops.Argmin))


def all(
    data: Value, axis: Numbers | None = None, keepdims: bool = False, exclude: bool = False
) -> Value:
    """Return whether all elements along axes are true; over all by default."""
    return cast(min(cast(data, "int32"), axis, keepdims, exclude), "bool")


def any(
    data: Value, axis: Numbers | None = None, keepdims: bool = False, exclude: bool = False
) -> Value:
    """Return whether an element along axes is true; over all by default."""
    return cast(max(cast(data, "int32"), axis, keepdims, exclude), "bool")


def logsumexp(data: Value, axis: Numbers | None = None, keepdims: bool = False) -> Value:
    """Take the logarithm of the sum of the powers of e, over axes; over all by default."""
    powers = exp(subtract(data, max(data, axis, True)))
    return add(log(sum(powers, axis, keepdims)), max(data, axis, keepdims))


def cast(data: Value, dtype: str) -> Value:
    """Convert each element."""
    return apply(ops.Cast(dtype), data)


def transpose(data: Value, axes: Sequence[int] | None = None) -> Value:
    """Permute dimensions; reverse them by default."""
    order = None if axes is None else whole_numbers("transpose", "axes", axes)
    return apply(ops.Transpose(order), data)


def squeeze(data: Value, axis: Numbers | None = None) -> Value:
    """Drop dimensions of extent 1."""
    axes = None if axis is None else whole_numbers("squeeze", "axis", axis)
    return apply(ops.Squeeze(axes), data)


def expand_dims(data: Value, axis: int, num_newaxis: int = 1) -> Value:
    """Insert dimensions of extent 1."""
    return apply(ops.ExpandDims(axis, num_newaxis), data)


def broadcast_to(data: Value, shape: Sequence[int]) -> Value:
    """Repeat a tensor to a larger shape."""
    return apply(ops.BroadcastTo(whole_numbers("broadcast_to", "shape", shape)), data)


def concatenate(data: Parts, axis: int = 0) -> Value:
    """Join tensors along an axis."""
    return apply(ops.Concatenate(axis), *flattened(data))


def stack(data: Parts, axis: int = 0) -> Value:
    """Join tensors along a new axis."""
    return apply(ops.Stack(axis), *flattened(data))


def cumsum(
    data: Value, axis: int | None = None, dtype: str | None = None, exclusive: bool | None = None
) -> Value:
    """Add up the elements along an axis, up to each; of the flat data by default.

    Args:
        data: the tensor.
        axis: the axis.
        dtype: of the sums; by default the data's.
        exclusive: whether each element is left out of its own sum.
    """
    return _cumulative(ops.Cumsum, data, axis, dtype, exclusive)


def cumprod(
    data: Value, axis: int | None = None, dtype: str | None = None, exclusive: bool | None = None
) -> Value:
    """Multiply the elements along an axis, up to each; arguments as of `cumsum`."""
    return _cumulative(ops.Cumprod, data, axis, dtype, exclusive)


def _cumulative(
    of: type[ops.Cumsum] | type[ops.Cumprod],
    data: Value,
    axis: int | None,
    dtype: str | None,
    exclusive: bool | None,
) -> Value:
    check_values(of.name, data=data)
    wide = data if dtype in (None, "", data.dtype) else cast(data, dtype)
    if axis is None:
        axis, wide = 0, reshape(wide, -1)
    if exclusive:
        wide = _one_later(of, wide, axis)
    return apply(of(axis), wide)


def _one_later(of: type[ops.Cumsum] | type[ops.Cumprod], data: Value, axis: int) -> Value:
    """Return what begins with neutral elements along an axis, and has not the last element."""
    ndim = data.type.ndim
    at = Check(GraphError, of.name).whole("axis", axis, -ndim, ndim - 1) % ndim
    if data.shape[at] == 1:
        return (ones if of.neutral else zeros)(data.shape, data.dtype)
    (begin, _) = split(data, [data.shape[at] - 1], at)
    sides = tuple((int(i == at), 0) for i in range(ndim))
    return apply(ops.Pad(sides, float(of.neutral)), begin)


def full(fill_value: Value, shape: Numbers = (), dtype: str = "") -> Value:
    """Make a tensor of one value."""
    check_values("full", fill_value=fill_value)
    value = fill_value if dtype in ("", None, fill_value.dtype) else cast(fill_value, dtype)
    return apply(ops.Full(whole_numbers("full", "shape", shape)), value)


def full_like(data: Value, fill_value: Value) -> Value:
    """Make a tensor of one value, of another's shape and dtype."""
    check_values("full_like", data=data)
    return full(fill_value, data.shape, data.dtype)


def zeros_like(data: Value) -> Value:
    """Make a tensor of zeros, of another's shape and dtype."""
    check_values("zeros_like", data=data)
    return zeros(data.shape, data.dtype)


def ones_like(data: Value) -> Value:
    """Make a tensor of ones, of another's shape and dtype."""
    check_values("ones_like", data=data)
    return ones(data.shape, data.dtype)


def reshape_like(data: Value, shape_like: Value) -> Value:
    """Give the elements another tensor's shape."""
    check_values("reshape_like", shape_like=shape_like)
    return reshape(data, shape_like.shape)


def broadcast_to_like(data: Value, broadcast_type: Value) -> Value:
    """Repeat a tensor to another's shape."""
    check_values("broadcast_to_like", broadcast_type=broadcast_type)
    return broadcast_to(data, broadcast_type.shape)


def variance(
    data: Value,
    axis: Numbers | None = None,
    keepdims: bool = False,
    exclude: bool = False,
    unbiased: bool = False,
    with_mean: Value | None = None,
) -> Value:
    """Take the mean square of the distances from the mean, over axes; over all by default.

    Args:
        data: the tensor.
        axis: the axes.
        keepdims: whether they stay, with extent 1.
        exclude: whether the axes are all others.
        unbiased: whether the sum is divided by one less than the number of elements.
        with_mean: the mean with its axes kept, where it is known.
    """
    check_values("variance", data=data)
    middle = mean(data, axis, True, exclude) if with_mean is None else with_mean
    distance = subtract(data, middle)
    squares = multiply(distance, distance)
    if not unbiased:
        return mean(squares, axis, keepdims, exclude)
    total = sum(squares, axis, keepdims, exclude)
    count = math.prod(data.shape) // math.prod(total.shape)
    return divide(total, const(float(builtins.max(count - 1, 1)), data.dtype))


def std(
    data: Value,
    axis: Numbers | None = None,
    keepdims: bool = False,
    exclude: bool = False,
    unbiased: bool = False,
) -> Value:
    """Take the square root of the variance."""
    return sqrt(variance(data, axis, keepdims, exclude, unbiased))


def zeros(shape: Numbers, dtype: str = "float32") -> Value:
    """Make a tensor of zeros."""
    extents = whole_numbers("zeros", "shape", shape)
    return apply(ops.Full(extents), Constant.of(np.zeros((), dtype)))


def ones(shape: Numbers, dtype: str = "float32") -> Value:
    """Make a tensor of ones."""
    extents = whole_numbers("ones", "shape", shape)
    return apply(ops.Full(extents), Constant.of(np.ones((), dtype)))


__all__ = [
    *_coordinates,
    *_elementwise,
    *_indexing,
    "all",
    "any",
    "argmax",
    "argmin",
    "broadcast_to",
    "broadcast_to_like",
    "cast",
    "concatenate",
    "const",
    "cumprod",
    "cumsum",
    "expand_dims",
    "full",
    "full_like",
    "logsumexp",
    "max",
    "mean",
    "min",
    "ones",
    "ones_like",
    "prod",
    "repeat",
    "reshape",
    "reshape_like",
    "reverse",
    "split",
    "squeeze",
    "stack",
    "std",
    "strided_slice",
    "sum",
    "take",
    "tile",
    "transpose",
    "var",
    "variance",
    "where",
    "zeros",
    "zeros_like",
]
