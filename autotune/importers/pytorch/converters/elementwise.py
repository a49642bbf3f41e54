"""Operators on one tensor, element by element, and activations."""

from __future__ import annotations

import math
from functools import partial

from autotune.graph import Operator, Value, ops
from autotune.importers.pytorch.call import Call, Operand, converts, rounded_once

_UNARY: dict[str, Operator] = {
    "exp": ops.Exp(),
    "exp2": ops.Exp2(),
    "log": ops.Log(),
    "log2": ops.Log2(),
    "log10": ops.Log10(),
    "log1p": ops.Log1p(),
    "sqrt": ops.Sqrt(),
    "rsqrt": ops.Rsqrt(),
    "tanh": ops.Tanh(),
    "sigmoid": ops.Sigmoid(),
    "erf": ops.Erf(),
    "sin": ops.Sin(),
    "cos": ops.Cos(),
    "tan": ops.Tan(),
    "sinh": ops.Sinh(),
    "cosh": ops.Cosh(),
    "asin": ops.Asin(),
    "acos": ops.Acos(),
    "atan": ops.Atan(),
    "asinh": ops.Asinh(),
    "acosh": ops.Acosh(),
    "atanh": ops.Atanh(),
    "floor": ops.Floor(),
    "ceil": ops.Ceil(),
    "abs": ops.Abs(),
    "neg": ops.Negative(),
    "_neg_view": ops.Negative(),
    "relu": ops.Relu(),
    "silu": ops.Silu(),
}

# From here on softplus differs from a straight line by less than floats of 32 bits show.
_STRAIGHT = 20


def _unary(op: Operator, call: Call, x: Value) -> Value:
    return call.apply(op, call.cast(x, call.type.dtype))


for _name, _op in _UNARY.items():
    converts(_name)(partial(_unary, _op))


@converts(
    "clone", "detach", "alias", "contiguous", "lift_fresh_copy", "lift_fresh", "_to_copy", "to",
    "dropout", "native_dropout", "feature_dropout", "alpha_dropout", "type_as", "positive",
    "_conj", "resolve_conj", "resolve_neg", "detach_copy", "alias_copy",
)  # fmt: skip
def same(call: Call, x: Value, *rest: object) -> Value | list[Value | None]:
    """Return the same numbers, in another dtype if one is asked for; dropout is for training."""
    if "dropout" in call.name and rest[-1] is True:
        call.refuse("train", "False: call model.eval() first", True)
    result = call.cast(x, call.type.dtype)
    return [result, None] if "native_dropout" in call.name else result


def _asked(op: Operator, call: Call, x: Value) -> Value:
    """Ask something of floats; the answer for whole numbers is always no."""
    if "float" in x.dtype:
        return call.apply(op, x)
    return call.expand(call.constant(False), x.shape)


converts("isnan")(partial(_asked, ops.IsNan()))
converts("isinf")(partial(_asked, ops.IsInf()))


@converts("copy")
def copied(call: Call, x: Value, source: Value, *_: object) -> Value:
    """Return the numbers of another tensor in the place of one."""
    return call.expand(call.cast(source, call.type.dtype), call.type.shape)


@converts("gelu")
def gelu(call: Call, x: Value, approximate: str = "none") -> Value:
    """Apply GELU, or its approximation by tanh."""
    return call.apply(ops.Gelu(approximate), x)


@converts("relu6")
def relu6(call: Call, x: Value) -> Value:
    """Limit to 0 .. 6."""
    return call.apply(ops.Clip(0.0, 6.0), x)


@converts("round.default")
def rounded(call: Call, x: Value) -> Value:
    """Round to the nearest whole number, halves to even ones."""
    return call.apply(ops.Nearbyint(), x) if "float" in x.dtype else x


@converts("hardtanh", "clamp.default")
def clip(call: Call, x: Value, low: float | None = None, high: float | None = None) -> Value:
    """Limit elements."""
    x = call.cast(x, call.type.dtype)
    if "int" in x.dtype:
        for op, limit in ((ops.Maximum, low), (ops.Minimum, high)):
            x = x if limit is None else call.binary(op, x, limit, x.dtype)
        return x
    most = math.inf if high is None else float(high)
    least = -math.inf if low is None else min(float(low), most)  # where they cross, most counts
    return call.apply(ops.Clip(least, most), x)


@converts("clamp.Tensor")
def clip_by_tensors(
    call: Call, x: Value, low: Value | None = None, high: Value | None = None
) -> Value:
    """Limit elements by those of other tensors."""
    for op, limit in ((ops.Maximum, low), (ops.Minimum, high)):
        x = x if limit is None else call.binary(op, x, limit, call.type.dtype)
    return x


@converts("leaky_relu")
def leaky_relu(call: Call, x: Value, slope: float = 0.01) -> Value:
    """Scale negative elements."""
    return call.apply(ops.LeakyRelu(float(slope)), x)


def _hard(call: Call, x: Value) -> Value:
    """Return x + 3, limited to 0 .. 6."""
    return call.apply(ops.Clip(0.0, 6.0), call.binary(ops.Add, x, 3.0, x.dtype))


@converts("hardsigmoid")
@rounded_once
def hardsigmoid(call: Call, x: Value) -> Value:
    """Apply a sigmoid made of straight lines."""
    return call.binary(ops.Multiply, _hard(call, x), 1 / 6, x.dtype)


@converts("hardswish")
@rounded_once
def hardswish(call: Call, x: Value) -> Value:
    """Multiply by a sigmoid made of straight lines."""
    product = call.apply(ops.Multiply(), x, _hard(call, x))
    return call.binary(ops.Multiply, product, 1 / 6, x.dtype)


@converts("prelu", "_prelu_kernel")
def prelu(call: Call, x: Value, slope: Value) -> Value:
    """Scale negative elements by a slope, of each channel or of all."""
    if slope.type.size == 1:
        wide = call.expand(call.reshape(slope, ()), x.shape)
    elif slope.type.ndim == 1 and x.type.ndim > 1:
        return call.apply(ops.Prelu(1), x, slope)
    else:
        wide = call.expand(slope, x.shape)
    positive = call.apply(ops.Greater(), x, call.constant(0, x.dtype))
    return call.apply(ops.Where(), positive, x, call.apply(ops.Multiply(), x, wide))


@converts("elu")
@rounded_once
def elu(
    call: Call, x: Value, alpha: Operand = 1, scale: Operand = 1, input_scale: Operand = 1
) -> Value:
    """Bend negative elements towards a constant."""
    dtype = x.dtype
    inner = x if input_scale == 1 else call.binary(ops.Multiply, x, input_scale, dtype)
    low = call.apply(ops.Minimum(), inner, call.constant(0, dtype))
    bent = _less_one(call, low)
    if alpha != 1:
        bent = call.binary(ops.Multiply, bent, alpha, dtype)
    result = call.binary(ops.Add, call.apply(ops.Relu(), x), bent, dtype)
    return result if scale == 1 else call.binary(ops.Multiply, result, scale, dtype)


@converts("softplus")
@rounded_once
def softplus(call: Call, x: Value, beta: float = 1, threshold: float = 20) -> Value:
    """Take log(1 + exp(x)), in a form that does not overflow; x itself beyond a threshold."""
    scaled = x if beta == 1 else call.binary(ops.Multiply, x, float(beta), x.dtype)
    small = call.apply(ops.Exp(), call.apply(ops.Negative(), call.apply(ops.Abs(), scaled)))
    more = call.apply(ops.Log1p(), small)
    total = call.apply(ops.Add(), call.apply(ops.Relu(), scaled), more)
    if beta != 1:
        total = call.binary(ops.Multiply, total, 1 / beta, x.dtype)
    if threshold >= _STRAIGHT and beta == 1:
        return total
    is_far = call.apply(ops.Greater(), scaled, call.constant(threshold, x.dtype))
    return call.apply(ops.Where(), is_far, x, total)


@converts("expm1")
@rounded_once
def expm1(call: Call, x: Value) -> Value:
    """Take exp(x) - 1."""
    return _less_one(call, call.cast(x, call.type.dtype))


def _less_one(call: Call, x: Value) -> Value:
    """Return exp(x) - 1 as tanh(x / 2) (exp(x) + 1), which is exact near zero, too."""
    half = call.apply(ops.Tanh(), call.binary(ops.Multiply, x, 0.5, x.dtype))
    more = call.binary(ops.Add, call.apply(ops.Exp(), x), 1, x.dtype)
    return call.apply(ops.Multiply(), half, more)


@converts("reciprocal")
def reciprocal(call: Call, x: Value) -> Value:
    """Take the inverse."""
    return call.binary(ops.Divide, 1, x, call.type.dtype)


@converts("square")
def square(call: Call, x: Value) -> Value:
    """Multiply by itself."""
    return call.apply(ops.Multiply(), x, x)


@converts("sign", "sgn")
def sign(call: Call, x: Value) -> Value:
    """Return -1, 0 or 1."""
    zero = call.constant(0, x.dtype)
    up = call.cast(call.apply(ops.Greater(), x, zero), x.dtype)
    return call.apply(ops.Subtract(), up, call.cast(call.apply(ops.Less(), x, zero), x.dtype))


@converts("angle")
def angle(call: Call, x: Value) -> Value:
    """Return the angle of real numbers in the plane of complex ones: 0 or pi; NaN stays."""
    x = call.cast(x, call.type.dtype)
    pi, zero = (call.expand(call.constant(n, x.dtype), x.shape) for n in (math.pi, 0))
    negative = call.apply(ops.Less(), x, call.constant(0, x.dtype))
    turned = call.apply(ops.Where(), negative, pi, zero)
    return call.apply(ops.Where(), call.apply(ops.IsNan(), x), x, turned)


@converts("trunc")
def trunc(call: Call, x: Value) -> Value:
    """Round towards 0."""
    positive = call.apply(ops.Greater(), x, call.constant(0, x.dtype))
    return call.apply(ops.Where(), positive, call.apply(ops.Floor(), x), call.apply(ops.Ceil(), x))


@converts("mish")
@rounded_once
def mish(call: Call, x: Value) -> Value:
    """Multiply by the tanh of log(1 + exp(x))."""
    return call.apply(ops.Multiply(), x, call.apply(ops.Tanh(), softplus(call, x)))
