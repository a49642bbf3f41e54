"""Operators of ``relay`` on one or two elements."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from autotune.errors import GraphError
from autotune.graph import OPERATORS, Constant, Value, apply, ops
from autotune.tvm.relay.arguments import check_values
from autotune.utils.check import Check


def _unary(name: str) -> Callable[[Value], Value]:
    def operator(data: Value) -> Value:
        return apply(OPERATORS[name](), data)

    operator.__name__ = operator.__qualname__ = name
    operator.__doc__ = f"Take ``{name}`` of each element."
    return operator


def _binary(name: str) -> Callable[[Value, Value], Value]:
    def operator(lhs: Value, rhs: Value) -> Value:
        return apply(OPERATORS[name](), lhs, rhs)

    operator.__name__ = operator.__qualname__ = name
    operator.__doc__ = f"Combine two tensors by ``{name}``."
    return operator


abs, negative, sign, copy = map(_unary, ("abs", "negative", "sign", "copy"))
floor, ceil, trunc = map(_unary, ("floor", "ceil", "trunc"))
exp, log, sqrt, rsqrt, erf = map(_unary, ("exp", "log", "sqrt", "rsqrt", "erf"))
tanh, sigmoid, sinh, cosh = map(_unary, ("tanh", "sigmoid", "sinh", "cosh"))
sin, cos, tan = map(_unary, ("sin", "cos", "tan"))
asin, acos, atan = map(_unary, ("asin", "acos", "atan"))
isnan, isinf, logical_not = map(_unary, ("isnan", "isinf", "logical_not"))
# TVM's are approximations of these.
fast_exp, fast_tanh, fast_erf = exp, tanh, erf
add, subtract, multiply, divide = map(_binary, ("add", "subtract", "multiply", "divide"))
floor_divide, floor_mod = map(_binary, ("floor_divide", "floor_mod"))
trunc_divide, mod = map(_binary, ("trunc_divide", "mod"))
trunc_mod = mod  # the remainder has the sign of the dividend
power, maximum, minimum = map(_binary, ("power", "maximum", "minimum"))
equal, not_equal, less = map(_binary, ("equal", "not_equal", "less"))
less_equal, greater, greater_equal = map(_binary, ("less_equal", "greater", "greater_equal"))
logical_and, logical_or, logical_xor = map(_binary, ("logical_and", "logical_or", "logical_xor"))
bitwise_and, bitwise_or, bitwise_xor = map(_binary, ("bitwise_and", "bitwise_or", "bitwise_xor"))
left_shift, right_shift = map(_binary, ("left_shift", "right_shift"))


def clip(a: Value, a_min: float, a_max: float) -> Value:
    """Limit each element."""
    check = Check(GraphError, "clip")
    check.number("a_min", a_min)
    check.number("a_max", a_max)
    return apply(ops.Clip(float(a_min), float(a_max)), a)


def bitwise_not(data: Value) -> Value:
    """Flip all bits of whole numbers."""
    check_values("bitwise_not", data=data)
    if "int" not in data.dtype:
        Check(GraphError, "bitwise_not").refuse("data", "of whole numbers", data.type)
    ones = Constant.of(np.array(-1).astype(data.dtype))
    return bitwise_xor(data, ones)


def isfinite(data: Value) -> Value:
    """Return whether each element is neither infinite nor no number."""
    return logical_not(logical_or(isnan(data), isinf(data)))


def round(data: Value) -> Value:
    """Take the nearest whole number of each element, of two the one farther from 0."""
    check_values("round", data=data)
    if "float" not in data.dtype:
        return copy(data)
    # Adding a half and cutting off would round the number below 0.5 up.
    whole = trunc(data)
    rest = abs(subtract(data, whole))
    half = Constant.of(np.array(0.5), dtype=data.dtype)
    up = apply(ops.Cast(data.dtype), greater_equal(rest, half))
    return add(whole, multiply(sign(data), up))


def log2(data: Value) -> Value:
    """Take the logarithm to base 2 of each element."""
    return _scaled_log("log2", data, 2)


def log10(data: Value) -> Value:
    """Take the logarithm to base 10 of each element."""
    return _scaled_log("log10", data, 10)


def _scaled_log(name: str, data: Value, base: int) -> Value:
    check_values(name, data=data)
    return multiply(log(data), Constant.of(np.array(1 / math.log(base)), dtype=data.dtype))


__all__ = [
    "abs",
    "acos",
    "add",
    "asin",
    "atan",
    "bitwise_and",
    "bitwise_not",
    "bitwise_or",
    "bitwise_xor",
    "ceil",
    "clip",
    "copy",
    "cos",
    "cosh",
    "divide",
    "equal",
    "erf",
    "exp",
    "fast_erf",
    "fast_exp",
    "fast_tanh",
    "floor",
    "floor_divide",
    "floor_mod",
    "greater",
    "greater_equal",
    "isfinite",
    "isinf",
    "isnan",
    "left_shift",
    "less",
    "less_equal",
    "log",
    "log2",
    "log10",
    "logical_and",
    "logical_not",
    "logical_or",
    "logical_xor",
    "maximum",
    "minimum",
    "mod",
    "multiply",
    "negative",
    "not_equal",
    "power",
    "right_shift",
    "round",
    "rsqrt",
    "sigmoid",
    "sign",
    "sin",
    "sinh",
    "sqrt",
    "subtract",
    "tan",
    "tanh",
    "trunc",
    "trunc_divide",
    "trunc_mod",
]
