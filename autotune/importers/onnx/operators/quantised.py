"""Quantisation: scales and zero points around layers of floats, and products of whole numbers.

Layers on quantised tensors become the layer on floats between `Dequantize` and `Quantize`, as in
the QDQ form of a model; `integer_layers` finds those that a kernel for whole numbers computes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from autotune.graph import Value, ops
from autotune.importers.onnx.call import Call, Converter, Operand
from autotune.importers.onnx.operators import (
    activations,
    arithmetic,
    convolution,
    pooling,
    products,
)
from autotune.importers.onnx.operators.arithmetic import chosen, combined
from autotune.importers.onnx.operators.convolution import convolve, filter_windows
from autotune.importers.onnx.operators.products import matmul
from autotune.importers.onnx.shape_rules import of_some_size
from autotune.importers.onnx.tensors import dtype_of, is_narrow, numpy_type

# The largest whole number up to which float32 has all.
_EXACT = 2**24


def _zero(call: Call, index: int, dtype: str, scale: Value) -> Value:
    """Return the zero point, in the shape of the scale; 0 where it is left out."""
    if not call.has(index):
        return call.as_value(np.zeros(scale.shape, numpy_type(dtype)))
    return call.value(index)


def _per_axis(call: Call, scale: Value) -> bool:
    """Return whether a scale is one number, or one for each index of an axis."""
    blocked = call.attribute("block_size", 0) and scale.type.size > 1
    return not blocked and (scale.type.ndim <= 1 or scale.type.size == 1)


def _vectors(call: Call, x: Value, scale: Value, zero: Value) -> tuple[int, Value, Value]:
    """Return the axis, and scale and zero point without dimensions or as vectors along it."""
    if zero.type.size != scale.type.size:
        call.refuse(f"scale and zero point must have one shape, got {scale.type}, {zero.type}")
    axis = call.attribute("axis", 1)
    if scale.type.size == 1:
        return 0, call.reshape(scale, ()), call.reshape(zero, ())
    return call.axis(axis, x.type.ndim), scale, zero


def _repeated(call: Call, x: Value, each: Value) -> Value:
    """Return the scales of blocks along an axis, one for each element."""
    axis, size = call.axis(call.attribute("axis", 1), x.type.ndim), call.attribute("block_size", 0)
    of_some_size(call, [x.shape[axis]])
    places = np.arange(x.shape[axis], dtype="int32") // min(max(size, 1), x.shape[axis])
    fits = each.type.ndim == x.type.ndim and each.shape[axis] == places[-1] + 1
    if not fits or size < 1:
        call.refuse(
            f"scales must be one for each block of {size} along axis {axis}, got {each.type}"
        )
    return call.apply(ops.Take(axis), each, call.as_value(places))


def _widened(operand: Operand | None) -> Operand | None:
    """Return numbers of fewer bits as whole numbers of 8, or as floats, which have them all."""
    if not isinstance(operand, np.ndarray) or not is_narrow(operand):
        return operand
    whole = {"int4": "int8", "uint4": "uint8"}
    return operand.astype(whole.get(operand.dtype.name, "float32"))


def _dequantised(call: Call) -> Value:
    """Return ``(x - zero) * scale``."""
    call = replace(call, inputs=tuple(map(_widened, call.inputs)))
    x, scale = call.value(0), call.value(1)
    zero = _zero(call, 2, x.dtype, scale)
    number = call.attribute("output_dtype", 0)
    kind = dtype_of(number, call.node.label) if number else scale.dtype
    if _per_axis(call, scale):
        axis, scale, zero = _vectors(call, x, scale, zero)
        if "int" in x.dtype:
            return call.cast(call.apply(ops.Dequantize(axis, scale.dtype), x, scale, zero), kind)
        along = [-1 if i == axis else 1 for i in range(x.type.ndim)] if scale.type.ndim else []
        scale, zero = (call.reshape(each, along) for each in (scale, zero))
    else:
        scale, zero = (_repeated(call, x, each) for each in (scale, zero))
    steps = call.cast(x, scale.dtype), call.cast(zero, scale.dtype)
    out = combined(call, ops.Multiply(), combined(call, ops.Subtract(), *steps), scale)
    return call.cast(out, kind)


def _quantised(call: Call) -> Value:
    """Return ``round(x / scale) + zero``, within the range of the result's dtype."""
    x, scale = call.value(0), call.value(1)
    number = call.attribute("output_dtype", 0)
    kind = dtype_of(number, call.node.label) if number else "uint8"
    kind = call.value(2).dtype if call.has(2) else kind
    zero = _zero(call, 2, kind, scale)
    if "float" not in x.dtype:
        x = call.cast(x, scale.dtype)
    scale = call.cast(scale, x.dtype)
    if _per_axis(call, scale):
        axis, scale, zero = _vectors(call, x, scale, zero)
        return call.apply(ops.Quantize(axis, kind), x, scale, zero)
    scale, zero = (_repeated(call, x, each) for each in (scale, zero))
    steps = call.apply(ops.Nearbyint(), call.apply(ops.Divide(), x, scale))
    return _limited(call, call.apply(ops.Add(), steps, call.cast(zero, x.dtype)), kind)


def _limited(call: Call, steps: Value, kind: str) -> Value:
    limits = np.iinfo(kind)
    return call.cast(call.apply(ops.Clip(float(limits.min), float(limits.max)), steps), kind)


def _dynamic(call: Call) -> list[Value]:
    """Return numbers in uint8, with the scale and the zero point of their range and 0."""
    x = call.value(0)
    least, most = (call.apply(op(None), x) for op in (ops.Min, ops.Max))
    least, most = call.binary(ops.Minimum, least, 0), call.binary(ops.Maximum, most, 0)
    scale = call.binary(ops.Divide, call.apply(ops.Subtract(), most, least), 255)
    nothing = call.binary(ops.Equal, scale, 0)  # all zeros
    divisor = chosen(call, nothing, call.number(1, scale), scale)
    start = call.apply(ops.Divide(), call.apply(ops.Negative(), least), divisor)
    zero = _limited(call, call.apply(ops.Nearbyint(), start), "uint8")
    return [call.apply(ops.Quantize(0, "uint8"), x, divisor, zero), divisor, zero]


# ---- Layers of whole numbers

# What is computed on floats between scales.
_OF_FLOATS: dict[str, Converter] = {
    name: converter
    for family in (activations, arithmetic, convolution, pooling, products)
    for name, converter in family.CONVERTERS.items()
} | {"DequantizeLinear": _dequantised, "QuantizeLinear": _quantised}


def _with(call: Call, kind: str, inputs: Sequence[Operand | None], **attributes: object) -> Value:
    """Return the result of another operator of ONNX on inputs."""
    node = replace(call.node, kind=kind, attributes={**call.node.attributes, **attributes})
    made: Value = _OF_FLOATS[kind](replace(call, node=node, inputs=tuple(inputs), opset=13))
    return made


def dequantised(call: Call, x: Operand, scale: Operand, zero: Operand, axis: int) -> Value:
    """Return the floats of whole numbers with a scale and a zero point, maybe along an axis."""
    inputs = (x, scale, zero)
    return _with(call, "DequantizeLinear", inputs, axis=axis, block_size=0, output_dtype=0)


def _real(call: Call, at: int, axis: int = 1) -> Value:
    """Return the floats of a tensor, its scale and its zero point, three inputs from one on."""
    x, scale, zero = _picked(call, at, at + 1, at + 2)
    return dequantised(call, x, scale, zero, axis)


def _steps(call: Call, value: Value, at: int) -> Value:
    """Return floats as whole numbers, by the scale and the zero point of two inputs."""
    inputs = (value, call.operand(at), call.inputs[at + 1] if call.has(at + 1) else None)
    return _with(call, "QuantizeLinear", inputs, axis=1, block_size=0, output_dtype=0)


def _of_one(kind: str) -> Converter:
    """Return the converter of an operator on x: its scale and zero point, the result's."""

    def convert(call: Call) -> Value:
        if call.attribute("channels_last", 0):
            call.refuse("channels_last is not supported")
        return _steps(call, _with(call, kind, (_real(call, 0),)), 3)

    return convert


def _of_two(kind: str) -> Converter:
    """Return the same of an operator on two tensors that broadcast."""

    def convert(call: Call) -> Value:
        return _steps(call, _with(call, kind, (_real(call, 0), _real(call, 3))), 6)

    return convert


def _concatenated(call: Call) -> Value:
    """Join tensors, each with a scale and a zero point; those of the result come first."""
    parts = [_real(call, i) for i in range(2, len(call.inputs), 3)]
    return _steps(call, call.apply(ops.Concatenate(call.attribute("axis", 0)), *parts), 0)


def _selected(call: Call) -> Value:
    """Choose between two tensors by a condition, which is the first input."""
    pair = _real(call, 1), _real(call, 4)
    return _steps(call, chosen(call, call.value(0), *pair), 7)


def _product(call: Call) -> Value:
    """Multiply; scales of b are one for each column."""
    last = call.value(3).type.ndim - 1
    return _steps(call, matmul(call, _real(call, 0, -2), _real(call, 3, last)), 6)


def _gemm(call: Call) -> Value:
    """Multiply and add a bias of whole numbers, whose scale is that of the products."""
    across = 0 if call.attribute("transB", 0) else 1
    a, b, alpha = _real(call, 0), _real(call, 3, across), call.attribute("alpha", 1.0)
    out = _with(call, "Gemm", (a, b), alpha=alpha)
    if call.has(6):
        out = combined(call, ops.Add(), out, _bias(call, 6, (1, 4), alpha))
    return _steps(call, out, 7) if call.has(7) else out


def _bias(call: Call, at: int, scales: Sequence[int], alpha: float = 1.0) -> Value:
    """Return a bias of whole numbers as floats."""
    size = call.binary(ops.Multiply, call.value(scales[0]), alpha)
    size = call.apply(ops.Multiply(), size, call.value(scales[1]))
    bias = call.cast(call.value(at), size.dtype)
    return combined(call, ops.Multiply(), bias, size)


def _convolution(call: Call) -> Value:
    """Convolve; scales of the weights are one for each filter."""
    x, weight = _real(call, 0), _real(call, 3, 0)
    bias = call.reshape(_bias(call, 8, (1, 4)), (weight.shape[0],)) if call.has(8) else None
    return _steps(call, _with(call, "Conv", (x, weight, bias)), 6)


def _whole(call: Call, at: int, zero: int, axis: int, kind: str) -> Value:
    """Return whole numbers less their zero point, one for each index of an axis, in a dtype."""
    x = call.cast(call.value(at), kind)
    if not call.has(zero) or _is_zero(call, zero):
        return x
    start = call.cast(call.value(zero), kind)
    if start.type.size == 1:
        start = call.reshape(start, ())
    elif start.type.ndim == 1:
        own = call.axis(axis, x.type.ndim)
        start = call.reshape(start, [-1 if i == own else 1 for i in range(x.type.ndim)])
    return combined(call, ops.Subtract(), x, start)


def _is_zero(call: Call, at: int) -> bool:
    known = call.numbers(call.operand(at))
    return known is not None and not known.any()


def _summed(terms: int) -> str:
    """Return a dtype in which so many products are exact: float32 has faster kernels."""
    return "float32" if terms * 255 * 255 < _EXACT else "int32"


def _integer_product(call: Call) -> Value:
    kind = _summed(call.value(0).shape[-1])
    left = _whole(call, 0, 2, -2, kind)
    right = _whole(call, 1, 3, -1, kind)
    return call.cast(matmul(call, left, right), "int32")


def _integer_convolution(call: Call) -> Value:
    x, weight = call.value(0), call.value(1)
    kind = _summed(weight.type.size // weight.shape[0])
    windows = filter_windows(call, x, weight)
    data, filters = _whole(call, 0, 2, 1, kind), _whole(call, 1, 3, 0, kind)
    out = convolve(call, data, filters, windows, call.attribute("group", 1))
    return call.cast(out, "int32")


# ---- Of ONNX Runtime


def _scaled_product(call: Call) -> Value:
    """Multiply whole numbers to floats: a, b, their scales, their zero points, a bias."""
    a = replace(call, inputs=_picked(call, 0, 2, 4))
    b = replace(call, inputs=_picked(call, 1, 3, 5))
    last = call.value(1).type.ndim - 1
    out = matmul(call, _real(a, 0, -2), _real(b, 0, last))
    return combined(call, ops.Add(), out, call.value(6)) if call.has(6) else out


def _dynamic_product(call: Call) -> Value:
    """Multiply floats, which are quantised by their range, by whole numbers."""
    steps, scale, zero = _dynamic(call)
    inputs = (steps, call.operand(1), scale, call.operand(2), zero)
    more = tuple(call.inputs[i] if call.has(i) else None for i in (3, 4))
    return _scaled_product(replace(call, inputs=(*inputs, *more)))


def _picked(call: Call, *places: int) -> tuple[Operand | None, ...]:
    return tuple(call.inputs[i] if call.has(i) else None for i in places)


CONVERTERS: dict[str, Converter] = {
    "DequantizeLinear": _dequantised,
    "QuantizeLinear": _quantised,
    "DynamicQuantizeLinear": _dynamic,
    "QLinearConv": _convolution,
    "QLinearMatMul": _product,
    "ConvInteger": _integer_convolution,
    "MatMulInteger": _integer_product,
}
VENDOR: dict[str, Converter] = {
    "DequantizeLinear": _dequantised,
    "QuantizeLinear": _quantised,
    "QLinearAdd": _of_two("Add"),
    "QLinearMul": _of_two("Mul"),
    "QLinearSigmoid": _of_one("Sigmoid"),
    "QLinearLeakyRelu": _of_one("LeakyRelu"),
    "QLinearSoftmax": _of_one("Softmax"),
    "QLinearAveragePool": _of_one("AveragePool"),
    "QLinearGlobalAveragePool": _of_one("GlobalAveragePool"),
    "QLinearConcat": _concatenated,
    "QLinearWhere": _selected,
    "QGemm": _gemm,
    "MatMulIntegerToFloat": _scaled_product,
    "DynamicQuantizeMatMul": _dynamic_product,
}
