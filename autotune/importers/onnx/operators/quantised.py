"""Quantisation as arithmetic; integer kernels of whole layers are refused."""

from __future__ import annotations

import numpy as np

from autotune.graph import Value, ops
from autotune.importers.onnx.call import Call, Converter
from autotune.importers.onnx.operators.arithmetic import combined
from autotune.importers.onnx.tensors import dtype_of

_INTEGERS = "layers on quantised integers have no kernels here; export the model in float32"
# Why operators are not supported, where there is more to say.
REASONS = {
    **dict.fromkeys(("QLinearConv", "QLinearMatMul", "ConvInteger", "MatMulInteger"), _INTEGERS),
    "NonMaxSuppression": "the shape of its result depends on data",
    "Unique": "the shape of its result depends on data",
    "StringNormalizer": "text is not supported",
    "TfIdfVectorizer": "text is not supported",
}


def _along(call: Call, value: Value, x: Value) -> Value:
    """Return a scale or zero point in a shape that broadcasts: one, or one for each index."""
    if value.type.size == 1:
        return call.reshape(value, ())
    if value.type.ndim != 1 or call.attribute("block_size", 0):
        call.refuse("scales of blocks are not supported, only one or one for each channel")
    axis = call.axis(call.attribute("axis", 1), x.type.ndim)
    return call.reshape(value, [-1 if i == axis else 1 for i in range(x.type.ndim)])


def _dequantised(call: Call) -> Value:
    """Return ``(x - zero) * scale``."""
    x, scale = call.value(0), call.value(1)
    kind = scale.dtype
    out = call.cast(x, kind)
    if call.has(2):
        out = combined(call, ops.Subtract(), out, call.cast(_along(call, call.value(2), x), kind))
    return combined(call, ops.Multiply(), out, _along(call, scale, x))


def _quantised(call: Call) -> Value:
    """Return ``round(x / scale) + zero``, within the range of the result's dtype."""
    x, scale = call.value(0), call.value(1)
    number = call.attribute("output_dtype", 0)
    kind = dtype_of(number, call.node.label) if number else "uint8"
    kind = call.value(2).dtype if call.has(2) else kind
    out = combined(call, ops.Divide(), x, call.cast(_along(call, scale, x), x.dtype))
    out = call.apply(ops.Nearbyint(), out)
    if call.has(2):
        out = combined(call, ops.Add(), out, call.cast(_along(call, call.value(2), x), x.dtype))
    limits = np.iinfo(kind)
    return call.cast(call.apply(ops.Clip(float(limits.min), float(limits.max)), out), kind)


CONVERTERS: dict[str, Converter] = {
    "DequantizeLinear": _dequantised,
    "QuantizeLinear": _quantised,
}
