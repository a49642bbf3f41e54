"""Reductions over axes, and sums along an axis."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from autotune.graph import Value, ops
from autotune.importers.pytorch.call import Call, Operand, converts, rounded_once

Axes = Sequence[int] | int | None


def _axes(given: Axes) -> tuple[int, ...] | None:
    if isinstance(given, int):
        return (given,)
    return tuple(given) if given else None


def _reduced(call: Call, op: type[ops.Reduction], x: Value, dim: Axes, keepdim: bool) -> Value:
    return call.apply(op(_axes(dim), keepdim), x) if x.shape else x


@converts("mean", "sum", "prod")
def total(call: Call, x: Value, dim: object = None, keepdim: object = False, *_: object) -> Value:
    """Add up, average or multiply, in the dtype of the result."""
    op = {"mean": ops.Mean, "sum": ops.Sum, "prod": ops.Prod}[call.name.split(".")[1]]
    axes = dim if isinstance(dim, (int, list, tuple)) else None  # else it is a dtype
    x = call.cast(x, call.type.dtype)
    return _reduced(call, op, x, axes, keepdim is True)


@converts("amax", "amin")
def extreme(call: Call, x: Value, dim: Axes = None, keepdim: bool = False) -> Value:
    """Take the largest or the least."""
    return _reduced(call, ops.Max if "amax" in call.name else ops.Min, x, dim, keepdim)


@converts("max.default", "min.default")
def extreme_of_all(call: Call, x: Value) -> Value:
    """Take the largest or the least of all."""
    return _reduced(call, ops.Max if "max" in call.name else ops.Min, x, None, False)


@converts("max.dim", "min.dim")
def extreme_and_place(call: Call, x: Value, dim: int, keepdim: bool = False) -> list[Value]:
    """Take the largest or the least along an axis, and where it is."""
    if not x.shape:
        return [x, call.constant(0, "int64")]
    values, places = (ops.Max, ops.Argmax) if "max" in call.name else (ops.Min, ops.Argmin)
    found = call.apply(places((dim,), keepdim), x)
    return [call.apply(values((dim,), keepdim), x), call.cast(found, "int64")]


converts("max.other")(lambda call, a, b: call.binary(ops.Maximum, a, b, call.type.dtype))
converts("min.other")(lambda call, a, b: call.binary(ops.Minimum, a, b, call.type.dtype))


@converts("argmax", "argmin")
def place(call: Call, x: Value, dim: int | None = None, keepdim: bool = False) -> Value:
    """Return where the largest or the least is."""
    op = ops.Argmax if "argmax" in call.name else ops.Argmin
    found = call.apply(op(None if dim is None else (dim,), keepdim), x)
    return call.cast(call.reshape(found, call.type.shape), "int64")


@converts("any", "all")
def truth(call: Call, x: Value, dim: Axes = None, keepdim: bool = False) -> Value:
    """Return whether any element, or all, are not 0."""
    numbers = call.cast(call.cast(x, "bool"), "int32")
    op = ops.Max if ".any" in call.name else ops.Min
    return call.cast(_reduced(call, op, numbers, dim, keepdim), "bool")


@converts("var.correction", "var.dim", "var.default", "std.correction", "var_mean.correction")
@rounded_once
def variance(
    call: Call, x: Value, dim: object = None, correction: object = 1, keepdim: bool = False
) -> Value | list[Value]:
    """Average the squares of differences to the mean."""
    if call.name.endswith(".default"):
        dim, correction = None, dim
    x = x if x.shape else call.reshape(x, (1,))
    axes = _axes(dim if isinstance(dim, (int, list, tuple)) else None)
    mean = call.apply(ops.Mean(axes, True), x)
    apart = call.apply(ops.Subtract(), x, mean)
    squares = call.apply(ops.Multiply(), apart, apart)
    result = call.apply(ops.Mean(axes, keepdim), squares)
    count = x.type.size // mean.type.size
    less = 1 if correction is None else int(correction)  # type: ignore[call-overload]
    if less:
        factor: Operand = count / (count - less) if count > less else math.inf
        result = call.binary(ops.Multiply, result, factor, x.dtype)
    if "std" in call.name:
        result = call.apply(ops.Sqrt(), result)
    result = call.reshape(result, call.types[0].shape)
    if "var_mean" in call.name:
        return [result, call.reshape(mean, call.types[1].shape)]
    return result


@converts("cumsum", "cumprod")
def cumulative(call: Call, x: Value, dim: int, *_: object) -> Value:
    """Add up, or multiply, along an axis."""
    x = call.cast(x, call.type.dtype)
    of = ops.Cumprod if "cumprod" in call.name else ops.Cumsum
    return call.apply(of(dim), x) if x.shape else x


@converts("logcumsumexp")
@rounded_once
def cumulative_log_of_sum(call: Call, x: Value, dim: int) -> Value:
    """Take the logarithms of sums of powers of e along an axis, without overflow."""
    return call.apply(ops.Logcumsumexp(dim), x) if x.shape else x


@converts("cummax", "cummin")
def cumulative_extreme(call: Call, x: Value, dim: int) -> list[Value]:
    """Take the largest or the least so far along an axis, and the last place where it was."""
    if not x.shape:
        return [x, call.constant(0, "int64")]
    axis = dim % x.type.ndim
    op = ops.Cummax if "cummax" in call.name else ops.Cummin
    wide = {"bool": "int32", "float16": "float32", "bfloat16": "float32"}.get(x.dtype, x.dtype)
    found = call.cast(call.apply(op(axis), call.cast(x, wide)), x.dtype)
    is_it = call.apply(ops.Equal(), x, found)
    if "float" in x.dtype:
        is_it = call.apply(ops.LogicalOr(), is_it, call.apply(ops.IsNan(), x))
    line = [x.shape[axis] if i == axis else 1 for i in range(x.type.ndim)]
    own = call.expand(
        call.constant(np.arange(x.shape[axis], dtype="int32").reshape(line)), x.shape
    )
    nowhere = call.expand(call.constant(0, "int32"), x.shape)
    places = call.apply(ops.Cummax(axis), call.apply(ops.Where(), is_it, own, nowhere))
    return [found, call.cast(places, "int64")]


@converts("logsumexp")
@rounded_once
def log_of_sum(call: Call, x: Value, dim: Axes, keepdim: bool = False) -> Value:
    """Take the logarithm of the sum of powers of e, without overflow."""
    x = call.cast(x, call.type.dtype)
    if not x.shape:
        return x
    highest = call.apply(ops.Max(_axes(dim), True), x)
    # Infinities less themselves are no numbers.
    nothing = call.expand(call.constant(0, x.dtype), highest.shape)
    highest = call.apply(ops.Where(), call.apply(ops.IsInf(), highest), nothing, highest)
    powers = call.apply(ops.Exp(), call.apply(ops.Subtract(), x, highest))
    result = call.apply(ops.Log(), call.apply(ops.Sum(_axes(dim), True), powers))
    return call.reshape(call.apply(ops.Add(), result, highest), call.type.shape)
