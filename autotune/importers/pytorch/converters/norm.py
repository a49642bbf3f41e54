"""Normalisations."""

from __future__ import annotations

import math
from collections.abc import Sequence

from autotune.graph import Value, ops
from autotune.importers.pytorch.call import Call, converts, rounded_once


def _vector(call: Call, given: Value | None, number: float, extent: int, dtype: str) -> Value:
    """Return a vector, or one of a number where none is given."""
    if given is None:
        return call.constant([number] * extent, dtype)
    return call.cast(given, dtype)


@converts("batch_norm", "_native_batch_norm_legit_no_training", "native_batch_norm")
def batch_norm(
    call: Call, x: Value, weight: Value | None, bias: Value | None, mean: Value | None,
    var: Value | None, *rest: object,
) -> Value | list[Value | None]:  # fmt: skip
    """Normalise by stored statistics; in their dtype where the data has fewer bits."""
    training, epsilon = (False, rest[-1]) if "no_training" in call.name else (rest[0], rest[2])
    if training or mean is None or var is None:
        call.refuse("training", "False, with stored statistics: call model.eval() first", training)
    dtype, channels = var.dtype, x.shape[1]
    vectors = (
        _vector(call, weight, 1, channels, dtype),
        _vector(call, bias, 0, channels, dtype),
        _vector(call, mean, 0, channels, dtype),
        _vector(call, var, 1, channels, dtype),
    )
    op = ops.BatchNorm(1, float(str(epsilon)), bias is not None, weight is not None)
    result = call.cast(call.apply(op, call.cast(x, dtype), *vectors), x.dtype)
    return [result, None, None] if "native" in call.name else result


@converts("_native_batch_norm_legit.no_stats")
def batch_statistics(
    call: Call, x: Value, weight: Value | None, bias: Value | None, training: bool,
    momentum: float, eps: float,
) -> list[Value | None]:  # fmt: skip
    """Normalise by statistics of the batch itself, as standardised weights are."""
    result, mean, _, root = _of_batch(call, x, weight, bias, eps)
    return [result, mean, root]


@converts("_native_batch_norm_legit_functional")
def batch_statistics_kept(
    call: Call, x: Value, weight: Value | None, bias: Value | None, mean: Value, var: Value,
    training: bool, momentum: float, eps: float,
) -> list[Value | None]:  # fmt: skip
    """Normalise by statistics of the batch, and let stored ones follow them."""
    if not training:
        call.refuse("training", "True where statistics are written", training)
    wide = call.cast(x, var.dtype)
    result, own, squares, root = _of_batch(call, wide, weight, bias, eps)
    count = x.type.size // x.shape[1]
    # The variance that is kept is that of all, of which the batch is a sample.
    unbiased = call.binary(ops.Multiply, squares, count / max(count - 1, 1), var.dtype)
    kept = []
    for stored, new in ((mean, own), (var, unbiased)):
        share = call.binary(ops.Multiply, new, float(momentum), var.dtype)
        rest = call.binary(ops.Multiply, stored, 1 - float(momentum), var.dtype)
        kept.append(call.apply(ops.Add(), share, rest))
    made = (result, own, root, *kept)
    return [call.cast(each, kind.dtype) for each, kind in zip(made, call.types, strict=True)]


def _of_batch(
    call: Call, x: Value, weight: Value | None, bias: Value | None, eps: float
) -> tuple[Value, Value, Value, Value]:
    """Return data normalised by its own statistics: means, variances and what scales it."""
    axes = (0, *range(2, x.type.ndim))
    mean = call.apply(ops.Mean(axes, True), x)
    apart = call.apply(ops.Subtract(), x, mean)
    squares = call.apply(ops.Mean(axes, True), call.apply(ops.Multiply(), apart, apart))
    root = call.apply(ops.Rsqrt(), call.binary(ops.Add, squares, float(eps), x.dtype))
    result = call.apply(ops.Multiply(), apart, root)
    shape = [1, x.shape[1], *[1] * (x.type.ndim - 2)]
    for vector, op in ((weight, ops.Multiply), (bias, ops.Add)):
        if vector is not None:
            wide = call.cast(call.reshape(vector, shape), x.dtype)
            result = call.binary(op, result, wide, x.dtype)
    vectors = [call.reshape(each, (x.shape[1],)) for each in (mean, squares, root)]
    return result, vectors[0], vectors[1], vectors[2]


@converts("layer_norm", "native_layer_norm")
def layer_norm(
    call: Call, x: Value, normalized_shape: Sequence[int], weight: Value | None = None,
    bias: Value | None = None, eps: float = 1e-5, *_: object,
) -> Value | list[Value | None]:  # fmt: skip
    """Normalise along the last axes, which are seen as one."""
    size = math.prod(normalized_shape)
    flat = call.reshape(x, (*x.shape[: x.type.ndim - len(normalized_shape)], size))
    op = ops.LayerNorm(-1, float(eps), bias is not None, weight is not None)
    result = call.apply(op, flat, *_flat(call, size, x.dtype, weight, bias))
    result = call.reshape(result, x.shape)
    return [result, None, None] if "native" in call.name else result


def _flat(call: Call, size: int, dtype: str, *vectors: Value | None) -> list[Value]:
    """Return the vectors that are given, of one dimension and of the dtype of the data."""
    return [call.cast(call.reshape(v, (size,)), dtype) for v in vectors if v is not None]


@converts("rms_norm")
def rms_norm(
    call: Call, x: Value, normalized_shape: Sequence[int], weight: Value | None = None,
    eps: float | None = None,
) -> Value:  # fmt: skip
    """Divide by the root of the mean of squares along the last axes."""
    size = math.prod(normalized_shape)
    least = {"float16": 2**-10, "bfloat16": 2**-7, "float64": 2**-52}.get(x.dtype, 2**-23)
    flat = call.reshape(x, (*x.shape[: x.type.ndim - len(normalized_shape)], size))
    op = ops.RmsNorm(-1, least if eps is None else float(eps), weight is not None)
    result = call.apply(op, flat, *_flat(call, size, x.dtype, weight))
    return call.reshape(result, x.shape)


@converts("group_norm")
def group_norm(
    call: Call, x: Value, groups: int, weight: Value | None = None, bias: Value | None = None,
    eps: float = 1e-5, *_: object,
) -> Value:  # fmt: skip
    """Normalise groups of channels."""
    op = ops.GroupNorm(groups, float(eps), bias is not None, weight is not None)
    return call.apply(op, x, *_flat(call, x.shape[1], x.dtype, weight, bias))


@converts("native_group_norm")
def native_group_norm(
    call: Call, x: Value, weight: Value | None, bias: Value | None, n: int, c: int, hxw: int,
    groups: int, eps: float,
) -> list[Value | None]:  # fmt: skip
    """Normalise groups of channels."""
    return [group_norm(call, x, groups, weight, bias, eps), None, None]


@converts("instance_norm")
def instance_norm(
    call: Call, x: Value, weight: Value | None, bias: Value | None, mean: Value | None,
    var: Value | None, use_input_stats: bool, momentum: float, eps: float, *_: object,
) -> Value | list[Value | None]:  # fmt: skip
    """Normalise each channel of each image, or all by stored statistics."""
    if not use_input_stats:
        return batch_norm(call, x, weight, bias, mean, var, False, momentum, eps)
    op = ops.InstanceNorm(float(eps), bias is not None, weight is not None)
    return call.apply(op, x, *_flat(call, x.shape[1], x.dtype, weight, bias))


@converts("softmax", "_softmax", "special_softmax", "_safe_softmax")
def softmax(call: Call, x: Value, dim: int, *_: object) -> Value:
    """Divide the powers of e by their sum."""
    return call.apply(ops.Softmax(dim), call.cast(x, call.type.dtype))


@converts("log_softmax", "_log_softmax")
def log_softmax(call: Call, x: Value, dim: int, *_: object) -> Value:
    """Take the logarithm of the softmax."""
    return call.apply(ops.LogSoftmax(dim), call.cast(x, call.type.dtype))


@converts("linalg_vector_norm")
@rounded_once
def vector_norm(
    call: Call, x: Value, power: float = 2, dim: Sequence[int] | None = None,
    keepdim: bool = False, *_: object,
) -> Value:  # fmt: skip
    """Take the root of a sum of powers of absolute values, or the greatest or the least one."""
    x = call.cast(x, call.type.dtype)
    if not x.shape:
        x = call.reshape(x, (1,))
    axes, size = (tuple(dim) if dim else None), call.apply(ops.Abs(), x)
    if power in (math.inf, -math.inf):
        op = ops.Max if power == math.inf else ops.Min
        return call.reshape(call.apply(op(axes, keepdim), size), call.type.shape)
    if power == 0:
        size = call.cast(call.cast(x, "bool"), x.dtype)
    elif power == 2:
        size = call.apply(ops.Multiply(), x, x)
    elif power != 1:
        size = call.binary(ops.Power, size, power, x.dtype)
    total = call.reshape(call.apply(ops.Sum(axes, keepdim), size), call.type.shape)
    if power == 2:
        return call.apply(ops.Sqrt(), total)
    return total if power in (0, 1) else call.binary(ops.Power, total, 1 / power, x.dtype)
