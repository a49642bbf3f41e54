"""Operators of ONNX Runtime (domain ``com.microsoft``) that its optimiser writes into models."""

from __future__ import annotations

from autotune.graph import Value, ops
from autotune.importers.onnx.call import Call, Converter
from autotune.importers.onnx.operators.arithmetic import combined
from autotune.importers.onnx.operators.products import matmul


def _gelu(call: Call) -> Value:
    x = call.value(0)
    x = combined(call, ops.Add(), x, call.value(1)) if call.has(1) else x
    return call.apply(ops.Gelu(), x)


def _fast_gelu(call: Call) -> Value:
    x = call.value(0)
    x = combined(call, ops.Add(), x, call.value(1)) if call.has(1) else x
    return call.apply(ops.Gelu("tanh"), x)


def _quick_gelu(call: Call) -> Value:
    x = call.value(0)
    inner = call.binary(ops.Multiply, x, call.attribute("alpha", 1.702))
    return call.apply(ops.Multiply(), x, call.apply(ops.Sigmoid(), inner))


def _fused_matmul(call: Call) -> Value:
    """Multiply matrices that may be transposed, and scale."""
    a, b = call.value(0), call.value(1)
    if call.attribute("transBatchA", 0) or call.attribute("transBatchB", 0):
        call.refuse("transposed batches are not supported")
    pairs = ((a, "transA"), (b, "transB"))
    a, b = (_last_swapped(call, each) if call.attribute(name, 0) else each for each, name in pairs)
    out, alpha = matmul(call, a, b), call.attribute("alpha", 1.0)
    return out if alpha == 1 else call.binary(ops.Multiply, out, alpha)


def _last_swapped(call: Call, x: Value) -> Value:
    ndim = x.type.ndim
    return call.transpose(x, (*range(ndim - 2), ndim - 1, ndim - 2))


def _skip_layer_norm(call: Call) -> list[Value | None]:
    """Add the skipped input and a bias, and normalise; the sum is the fourth output."""
    total = combined(call, ops.Add(), call.value(0), call.value(1))
    total = combined(call, ops.Add(), total, call.value(4)) if call.has(4) else total
    epsilon = call.attribute("epsilon", 1e-5)
    if call.has(3):
        out = call.apply(ops.LayerNorm(-1, epsilon), total, call.value(2), call.value(3))
    else:
        out = call.apply(ops.LayerNorm(-1, epsilon, center=False), total, call.value(2))
    return [out, None, None, total]


CONVERTERS: dict[str, Converter] = {
    "Gelu": _gelu,
    "BiasGelu": _gelu,
    "FastGelu": _fast_gelu,
    "QuickGelu": _quick_gelu,
    "FusedMatMul": _fused_matmul,
    "SkipLayerNormalization": _skip_layer_norm,
}
