"""Normalisations."""

from __future__ import annotations

import math

import numpy as np

from autotune.graph import Value, ops
from autotune.importers.onnx.call import Call, Converter
from autotune.importers.onnx.operators.arithmetic import combined
from autotune.importers.onnx.operators.pooling import root


def _batch_norm(call: Call) -> list[Value]:
    """Normalise by statistics of training, or in that mode by those of the data."""
    if call.opset < 9 and not call.attribute("spatial", 1):
        call.refuse("spatial 0 is not supported")
    x, *vectors = (call.value(i) for i in range(5))
    scale, bias, mean, variance = (call.cast(each, x.dtype) for each in vectors)
    running: list[Value] = []
    if call.attribute("training_mode", 0):
        axes, kept = (0, *range(2, x.type.ndim)), call.attribute("momentum", 0.9)
        own = call.apply(ops.Mean(axes, True), x)
        apart = call.apply(ops.Subtract(), x, own)
        spread = call.apply(ops.Mean(axes), call.apply(ops.Multiply(), apart, apart))
        now = (call.reshape(own, mean.shape), spread)
        for old, new in zip((mean, variance), now, strict=True):
            parts = (
                call.binary(ops.Multiply, old, kept),
                call.binary(ops.Multiply, new, 1 - kept),
            )
            running.append(call.apply(ops.Add(), *parts))
        mean, variance = now
    op = ops.BatchNorm(1, call.attribute("epsilon", 1e-5))
    return [call.apply(op, x, scale, bias, mean, variance), *running]


def _instance_norm(call: Call) -> Value:
    return call.apply(ops.InstanceNorm(call.attribute("epsilon", 1e-5)), *call.values()[:3])


def _group_norm(call: Call) -> Value:
    """Normalise groups; up to opset 20 scale and bias have a number for each group."""
    x, scale, bias = call.values()[:3]
    groups = call.attribute("num_groups", 1)
    if call.opset < 21:
        each = x.shape[1] // groups
        wide = [
            call.broadcast(call.reshape(v, (groups, 1)), (groups, each)) for v in (scale, bias)
        ]
        scale, bias = (call.reshape(v, (x.shape[1],)) for v in wide)
    op = ops.GroupNorm(groups, call.attribute("epsilon", 1e-5))
    return call.apply(op, x, scale, bias)


def _layer_norm(call: Call) -> list[Value]:
    """Normalise along the last axes; its other outputs are the mean and the inverse deviation."""
    x = call.value(0)
    axis = call.axis(call.attribute("axis", -1), x.type.ndim)
    epsilon = call.attribute("epsilon", 1e-5)
    rows = call.reshape(x, (*x.shape[:axis], math.prod(x.shape[axis:])))
    vectors = {name: call.optional(i) for i, name in ((1, "scale"), (2, "center"))}
    size = rows.shape[-1]
    whole = all(each is None or each.type.size == size for each in vectors.values())
    if whole:
        flags = {name: each is not None for name, each in vectors.items()}
        flat = [call.reshape(each, (size,)) for each in vectors.values() if each is not None]
        out = call.reshape(call.apply(ops.LayerNorm(-1, epsilon, **flags), rows, *flat), x.shape)
    else:
        out = call.reshape(
            call.apply(ops.LayerNorm(-1, epsilon, center=False, scale=False), rows), x.shape
        )
        for op, vector in zip((ops.Multiply, ops.Add), vectors.values(), strict=True):
            out = out if vector is None else combined(call, op(), out, vector)
    if len(call.node.outputs) == 1:
        return [out]
    return [out, *_statistics(call, x, tuple(range(axis, x.type.ndim)), epsilon)]


def _statistics(call: Call, x: Value, axes: tuple[int, ...], epsilon: float) -> list[Value]:
    """Return the mean and the inverse of the standard deviation."""
    mean = call.apply(ops.Mean(axes, True), x)
    apart = call.apply(ops.Subtract(), x, mean)
    variance = call.apply(ops.Mean(axes, True), call.apply(ops.Multiply(), apart, apart))
    return [mean, call.apply(ops.Rsqrt(), call.binary(ops.Add, variance, epsilon))]


def rms_norm(call: Call) -> Value:
    """Divide by the root of the mean square along the last axes, and scale."""
    x, scale = call.value(0), call.value(1)
    axis = call.axis(call.attribute("axis", -1), x.type.ndim)
    rows = call.reshape(x, (*x.shape[:axis], math.prod(x.shape[axis:])))
    op = ops.RmsNorm(-1, call.attribute("epsilon", 1e-5), scale=False)
    if scale.type.size == rows.shape[-1]:
        op = ops.RmsNorm(-1, op.epsilon)
        return call.reshape(call.apply(op, rows, call.reshape(scale, rows.shape[-1:])), x.shape)
    return combined(call, ops.Multiply(), call.reshape(call.apply(op, rows), x.shape), scale)


def _local_response(call: Call) -> Value:
    """Divide by a power of the sum of squares of neighbouring channels."""
    x, size = call.value(0), call.attribute("size", 1)
    alpha, beta = call.attribute("alpha", 1e-4), call.attribute("beta", 0.75)
    n, channels, *rest = x.shape
    squares = call.reshape(call.apply(ops.Multiply(), x, x), (n, 1, channels, math.prod(rest)))
    padding = ((size - 1) // 2, 0, size - 1 - (size - 1) // 2, 0)
    pool = ops.AvgPool2d((size, 1), (1,), padding, count_include_pad=True)
    mean = call.reshape(call.apply(pool, squares), x.shape)
    total = call.binary(
        ops.Add, call.binary(ops.Multiply, mean, alpha), call.attribute("bias", 1.0)
    )
    return call.apply(ops.Divide(), x, call.binary(ops.Power, total, beta))


def _lp_norm(call: Call) -> Value:
    """Divide by the norm along an axis; what is 0 throughout stays 0."""
    x, p = call.value(0), call.attribute("p", 2)
    axis = call.axis(call.attribute("axis", -1), x.type.ndim)
    powers = call.apply(ops.Multiply(), x, x) if p == 2 else call.apply(ops.Abs(), x)
    total = call.apply(ops.Sum((axis,), True), powers)
    total = total if p == 1 else root(call, total, p)
    # 0 / tiny is 0, and sums of what is not 0 throughout are greater.
    least = float(np.finfo("float32" if x.dtype == "bfloat16" else x.dtype).tiny)
    return call.apply(ops.Divide(), x, call.binary(ops.Maximum, total, least))


def _mean_variance(call: Call) -> Value:
    x = call.value(0)
    axes = tuple([call.axis(a, x.type.ndim) for a in call.ints("axes") or (0, 2, 3)])
    mean = call.apply(ops.Mean(axes, True), x)
    apart = call.apply(ops.Subtract(), x, mean)
    variance = call.apply(ops.Mean(axes, True), call.apply(ops.Multiply(), apart, apart))
    deviation = call.binary(ops.Add, call.apply(ops.Sqrt(), variance), 1e-9)
    return call.apply(ops.Divide(), apart, deviation)


CONVERTERS: dict[str, Converter] = {
    "BatchNormalization": _batch_norm,
    "InstanceNormalization": _instance_norm,
    "GroupNormalization": _group_norm,
    "LayerNormalization": _layer_norm,
    "RMSNormalization": rms_norm,
    "LRN": _local_response,
    "LpNormalization": _lp_norm,
    "MeanVarianceNormalization": _mean_variance,
}
