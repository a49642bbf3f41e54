"""Activations."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from autotune.graph import Constant, Value, ops
from autotune.importers.onnx.call import Call, Converter
from autotune.importers.onnx.operators.arithmetic import chosen
from autotune.importers.onnx.operators.elementwise import unary

# A function of one value, as recurrent layers apply them too.
Function = Callable[[Call, Value], Value]


def hard_sigmoid(call: Call, x: Value, alpha: float = 0.2, beta: float = 0.5) -> Value:
    """Return ``alpha * x + beta`` within 0 and 1."""
    line = call.binary(ops.Add, call.binary(ops.Multiply, x, alpha), beta)
    return call.apply(ops.Clip(0.0, 1.0), line)


def softplus(call: Call, x: Value) -> Value:
    """Return ``log(1 + exp(x))`` as ``max(x, 0) + log(1 + exp(-|x|))``, without overflow."""
    small = call.apply(ops.Exp(), call.apply(ops.Negative(), call.apply(ops.Abs(), x)))
    return call.apply(ops.Add(), call.apply(ops.Relu(), x), call.apply(ops.Log1p(), small))


def elu(call: Call, x: Value, alpha: float = 1.0, below: float = 1.0, gamma: float = 1.0) -> Value:
    """Return ``gamma * x`` from 0 on, and ``gamma * alpha * (exp(x / below) - 1)`` below."""
    least = call.binary(ops.Minimum, x, 0)
    least = least if below == 1 else call.binary(ops.Divide, least, below)
    # exp(x) - 1 as tanh(x / 2) (exp(x) + 1), which is exact near zero, too.
    half = call.apply(ops.Tanh(), call.binary(ops.Multiply, least, 0.5))
    power = call.binary(ops.Add, call.apply(ops.Exp(), least), 1)
    power = call.apply(ops.Multiply(), half, power)
    power = power if alpha == 1 else call.binary(ops.Multiply, power, alpha)
    total = call.apply(ops.Add(), call.apply(ops.Relu(), x), power)
    return total if gamma == 1 else call.binary(ops.Multiply, total, gamma)


def _hard_sigmoid(call: Call) -> Value:
    return hard_sigmoid(
        call, call.value(0), call.attribute("alpha", 0.2), call.attribute("beta", 0.5)
    )


def _hard_swish(call: Call) -> Value:
    x = call.value(0)
    return call.apply(ops.Multiply(), x, hard_sigmoid(call, x, 1 / 6, 0.5))


def _softplus(call: Call) -> Value:
    return softplus(call, call.value(0))


def _mish(call: Call) -> Value:
    x = call.value(0)
    return call.apply(ops.Multiply(), x, call.apply(ops.Tanh(), softplus(call, x)))


def _elu(call: Call) -> Value:
    return elu(call, call.value(0), call.attribute("alpha", 1.0))


def _selu(call: Call) -> Value:
    alpha = call.attribute("alpha", 1.6732632423543772)
    return elu(call, call.value(0), alpha, gamma=call.attribute("gamma", 1.0507009873554805))


def _celu(call: Call) -> Value:
    alpha = call.attribute("alpha", 1.0)
    return elu(call, call.value(0), alpha, alpha)


def _softsign(call: Call) -> Value:
    x = call.value(0)
    return call.apply(ops.Divide(), x, call.binary(ops.Add, call.apply(ops.Abs(), x), 1))


def _leaky(call: Call) -> Value:
    return call.apply(ops.LeakyRelu(call.attribute("alpha", 0.01)), call.value(0))


def _thresholded(call: Call) -> Value:
    x = call.value(0)
    above = call.binary(ops.Greater, x, call.attribute("alpha", 1.0))
    return chosen(call, above, x, call.number(0, x))


def _shrink(call: Call) -> Value:
    x, bias, limit = call.value(0), call.attribute("bias", 0.0), call.attribute("lambd", 0.5)
    above, below = call.binary(ops.Greater, x, limit), call.binary(ops.Less, x, -limit)
    rest = chosen(call, below, call.binary(ops.Add, x, bias), call.number(0, x))
    return chosen(call, above, call.binary(ops.Subtract, x, bias), rest)


def _prelu(call: Call) -> Value:
    """Scale negative elements by slopes that broadcast."""
    x, slope = call.value(0), call.value(1)
    if isinstance(slope, Constant) and slope.type.size == 1:
        return call.apply(ops.LeakyRelu(float(slope.array.reshape(())[()])), x)
    extents = (1,) * (x.type.ndim - slope.type.ndim) + slope.shape
    wide = [i for i, n in enumerate(extents) if n != 1]
    if len(wide) == 1 and extents[wide[0]] == x.shape[wide[0]]:
        return call.apply(ops.Prelu(wide[0]), x, call.reshape(slope, (extents[wide[0]],)))
    negative = call.apply(ops.Multiply(), call.binary(ops.Minimum, x, 0), slope)
    return call.apply(ops.Add(), call.apply(ops.Relu(), x), negative)


def _clip(call: Call) -> Value:
    """Limit elements; the limits are attributes, and inputs from opset 11 on."""
    x = call.value(0)
    if call.opset < 11:
        low, high = call.attribute("min", -math.inf), call.attribute("max", math.inf)
        return call.apply(ops.Clip(low, high), x)
    known = [call.numbers(call.inputs[i]) if call.has(i) else None for i in (1, 2)]
    if all(number is not None or not call.has(i + 1) for i, number in enumerate(known)):
        low, high = (
            default if number is None else number.reshape(())[()].item()
            for number, default in zip(known, (-math.inf, math.inf), strict=True)
        )
        if (low, high) == (0, math.inf):
            return call.apply(ops.Relu(), x)
        # Where the limits cross, the upper one counts.
        return call.apply(ops.Clip(float(min(low, high)), float(high)), x)
    for index, op in ((1, ops.Maximum), (2, ops.Minimum)):
        x = call.binary(op, x, call.reshape(call.value(index), ())) if call.has(index) else x
    return x


def _gelu(call: Call) -> Value:
    return call.apply(ops.Gelu(call.attribute("approximate", "none")), call.value(0))


def _swish(call: Call) -> Value:
    x, alpha = call.value(0), call.attribute("alpha", 1.0)
    if alpha == 1:
        return call.apply(ops.Silu(), x)
    inner = call.apply(ops.Sigmoid(), call.binary(ops.Multiply, x, alpha))
    return call.apply(ops.Multiply(), x, inner)


def _softmax(op: type[ops.Softmax]) -> Converter:
    """Return the converter of a softmax, which up to opset 12 is over all axes from one on."""

    def convert(call: Call) -> Value:
        x = call.value(0)
        if call.opset >= 13:
            return call.apply(op(call.axis(call.attribute("axis", -1), x.type.ndim)), x)
        axis = call.axis(call.attribute("axis", 1), x.type.ndim) if x.type.ndim > 1 else 0
        if math.prod(x.shape[axis:]) == x.shape[axis]:
            return call.apply(op(axis), x)
        rows = call.reshape(x, (math.prod(x.shape[:axis]), math.prod(x.shape[axis:])))
        return call.reshape(call.apply(op(1), rows), x.shape)

    return convert


def _hardmax(call: Call) -> Value:
    x = call.value(0)
    ndim = x.type.ndim
    axis = call.axis(call.attribute("axis", 1 if call.opset < 13 else -1), ndim)
    seen = (
        x
        if call.opset >= 13
        else call.reshape(x, (math.prod(x.shape[:axis]), math.prod(x.shape[axis:])))
    )
    at = axis if call.opset >= 13 else 1
    place = call.apply(ops.Argmax((at,), True), seen)
    shape = [n if i == at else 1 for i, n in enumerate(seen.shape)]
    own = call.as_value(np.arange(seen.shape[at], dtype="int32").reshape(shape))
    hit = call.apply(
        ops.Equal(), call.broadcast(place, seen.shape), call.broadcast(own, seen.shape)
    )
    return call.reshape(call.cast(hit, x.dtype), x.shape)


CONVERTERS: dict[str, Converter] = {
    "Relu": unary(ops.Relu),
    "Sigmoid": unary(ops.Sigmoid),
    "LeakyRelu": _leaky,
    "PRelu": _prelu,
    "Elu": _elu,
    "Selu": _selu,
    "Celu": _celu,
    "HardSigmoid": _hard_sigmoid,
    "HardSwish": _hard_swish,
    "Softplus": _softplus,
    "Softsign": _softsign,
    "Mish": _mish,
    "Gelu": _gelu,
    "Swish": _swish,
    "Clip": _clip,
    "ThresholdedRelu": _thresholded,
    "Shrink": _shrink,
    "Softmax": _softmax(ops.Softmax),
    "LogSoftmax": _softmax(ops.LogSoftmax),
    "Hardmax": _hardmax,
}
