"""Operators on two tensors or numbers, element by element, in the dtype that torch promotes to."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import numpy as np

from autotune.graph import Constant, Value, ops
from autotune.importers.pytorch.call import Call, Operand, converts

# Of dtypes in the order in which one is converted to another.
_INTEGERS = ("bool", "uint8", "int8", "int16", "int32", "int64")


def _is_float(dtype: str) -> bool:
    return dtype not in _INTEGERS


def common_dtype(a: Operand, b: Operand) -> str:
    """Return the dtype in which torch compares two operands.

    A tensor without dimensions, or a number, decides only if it is of a higher kind: torch's rules
    of promotion.
    """
    found = ""
    for dimensions in (True, False):
        for each in (a, b):
            if isinstance(each, Value) and bool(each.shape) is dimensions:
                found = _promoted(found, each.dtype, dimensions)
    for each in (a, b):
        if not isinstance(each, Value) and isinstance(each, float) and not _is_float(found):
            found = "float32"
        elif not isinstance(each, Value) and not isinstance(each, bool) and found == "bool":
            found = "int64"
    return found


def _promoted(a: str, b: str, equal_rank: bool) -> str:
    if not a or a == b:
        return b
    kinds = [(_is_float(each), each != "bool") for each in (a, b)]
    if not equal_rank or kinds[0] != kinds[1]:
        return b if kinds[1] > kinds[0] else a
    if _is_float(a):
        order = ("float16", "bfloat16", "float32", "float64")
        if {a, b} == {"float16", "bfloat16"}:
            return "float32"
        return max(a, b, key=order.index)
    if "uint8" in (a, b) and "int8" in (a, b):
        return "int16"
    return max(a, b, key=_INTEGERS.index)


def _plain(op: type[ops.Broadcast], call: Call, a: Operand, b: Operand, *_: object) -> Value:
    if call.type.dtype == "bool" and op is ops.Multiply:
        return _and(call, a, b)
    return call.binary(op, a, b, call.type.dtype)


def _register_plain() -> None:
    table: dict[str, type[ops.Broadcast]] = {
        "mul": ops.Multiply,
        "maximum": ops.Maximum,
        "minimum": ops.Minimum,
        "true_divide": ops.Divide,
    }
    for name, op in table.items():
        converts(name)(partial(_plain, op))
    for name in ("clamp_min", "clamp_max"):
        converts(name)(partial(_plain, ops.Maximum if name == "clamp_min" else ops.Minimum))


def _scaled(
    op: type[ops.Broadcast], call: Call, a: Operand, b: Operand, alpha: Operand = 1
) -> Value:
    """Add or subtract a multiple of the second operand."""
    dtype = call.type.dtype
    if dtype == "bool" and op is ops.Add:
        return _or(call, a, b)
    if not isinstance(b, Value):
        return call.binary(op, a, b * alpha if alpha != 1 else b, dtype)
    if alpha != 1:
        b = call.binary(ops.Multiply, b, alpha, dtype)
    return call.binary(op, a, b, dtype)


converts("add")(partial(_scaled, ops.Add))
converts("sub")(partial(_scaled, ops.Subtract))
_register_plain()


@converts("atan2")
def angle_of_points(call: Call, y: Operand, x: Operand) -> Value:
    """Return the angle of points; of 16-bit floats as float32, as in torch."""
    dtype = "float64" if call.type.dtype == "float64" else "float32"
    return call.cast(call.binary(ops.Atan2, y, x, dtype), call.type.dtype)


@converts("copysign")
def with_sign_of(call: Call, x: Operand, sign: Operand) -> Value:
    """Return the size of one operand with the sign of another, which zeros have too."""
    return call.binary(ops.Copysign, x, sign, call.type.dtype)


@converts("signbit")
def has_sign(call: Call, x: Value) -> Value:
    """Return whether the sign is set, of zeros and of what is no number too."""
    if not _is_float(x.dtype):
        return call.binary(ops.Less, x, 0, x.dtype)
    return call.binary(ops.Less, call.binary(ops.Copysign, 1, x, x.dtype), 0, x.dtype)


@converts("rsub")
def reversed_difference(call: Call, a: Operand, b: Operand, alpha: Operand = 1) -> Value:
    """Subtract the first operand from the second."""
    return _scaled(ops.Subtract, call, b, a, alpha)


@converts("div", "floor_divide")
def quotient(call: Call, a: Operand, b: Operand, rounding_mode: str | None = None) -> Value:
    """Divide; whole numbers as floats, or rounded where that is asked for."""
    mode = "floor" if "floor_divide" in call.name else rounding_mode
    dtype = call.type.dtype
    if mode is None:
        return call.binary(ops.Divide, a, b, dtype)
    if not _is_float(dtype):
        return call.binary(ops.FloorDivide if mode == "floor" else ops.TruncDivide, a, b, dtype)
    if mode == "trunc":
        return call.apply(ops.Trunc(), call.binary(ops.Divide, a, b, dtype))
    return _floor_of_floats(call, call.value(a, dtype), call.value(b, dtype))


def _floor_of_floats(call: Call, a: Value, b: Value) -> Value:
    """Return the quotient rounded down, without the error of a quotient that is rounded up first.

    What the remainder leaves is a multiple of the divisor, which is divided and made whole again.
    """
    dtype = call.type.dtype
    rest = call.apply(ops.Mod(), a, b)
    exact = call.binary(ops.Divide, call.binary(ops.Subtract, a, rest, dtype), b, dtype)
    below = call.binary(ops.Subtract, exact, 1, dtype)
    lower = chosen(call, _other_sign(call, rest, b), below, exact)
    whole = call.apply(ops.Floor(), lower)
    left = call.binary(ops.Subtract, lower, whole, dtype)
    short = call.apply(ops.Greater(), left, call.constant(0.5, dtype))
    whole = chosen(call, short, call.binary(ops.Add, whole, 1, dtype), whole)
    by_zero = call.apply(ops.Equal(), b, call.constant(0, dtype))
    return chosen(call, by_zero, call.binary(ops.Divide, a, b, dtype), whole)


def _other_sign(call: Call, rest: Value, divisor: Value) -> Value:
    """Return where a remainder is not 0 and has not the sign of its divisor."""
    negative = [
        call.apply(ops.Less(), each, call.constant(0, each.dtype)) for each in (rest, divisor)
    ]
    some = call.apply(ops.NotEqual(), rest, call.constant(0, rest.dtype))
    return call.apply(ops.LogicalAnd(), some, call.apply(ops.LogicalXor(), *negative))


@converts("fmod")
def remainder_of_dividend(call: Call, a: Operand, b: Operand) -> Value:
    """Return what a division leaves, with the sign of the dividend."""
    return call.binary(ops.Mod, a, b, call.type.dtype)


@converts("remainder")
def remainder(call: Call, a: Operand, b: Operand) -> Value:
    """Return what a division leaves, with the sign of the divisor."""
    dtype = call.type.dtype
    if not _is_float(dtype):
        return call.binary(ops.FloorMod, a, b, dtype)
    divisor = call.value(b, dtype)
    rest = call.apply(ops.Mod(), call.value(a, dtype), divisor)
    return chosen(
        call, _other_sign(call, rest, divisor), call.binary(ops.Add, rest, divisor, dtype), rest
    )


@converts("pow")
def power(call: Call, a: Operand, b: Operand) -> Value:
    """Raise to a power; small whole ones are products."""
    dtype = call.type.dtype
    if isinstance(a, Value) and not isinstance(b, Value):
        x = call.cast(a, dtype)
        if b == 0.5:
            return call.apply(ops.Sqrt(), x)
        if b == -0.5:
            return call.apply(ops.Rsqrt(), x)
        if b in (1, 2, 3, 4):
            result = x
            for _ in range(int(b) - 1):
                result = call.apply(ops.Multiply(), result, x)
            return result
        if b == -1:
            return call.apply(ops.Divide(), call.constant(1, dtype), x)
        if isinstance(b, float) and not b.is_integer():  # infinity is none either
            return call.binary(ops.Power, x, b, dtype)
        return _whole_power(call, x, int(b))
    if not dtype.startswith(("float", "bfloat")):
        call.refuse("exponent", "a number, where powers are whole numbers", "a tensor")
    return call.binary(ops.Power, a, b, dtype)


def _whole_power(call: Call, x: Value, exponent: int) -> Value:
    """Raise numbers of both signs to a whole power, by squares."""
    result: Value | None = None
    square, left = x, abs(exponent)
    while left:
        if left & 1:
            result = square if result is None else call.apply(ops.Multiply(), result, square)
        left >>= 1
        if left:
            square = call.apply(ops.Multiply(), square, square)
    one = call.constant(1, x.dtype)
    if result is None:
        return call.expand(one, x.shape)
    return result if exponent > 0 else call.apply(ops.Divide(), one, result)


def _compared(op: type[ops.Broadcast], call: Call, a: Operand, b: Operand) -> Value:
    return call.binary(op, a, b, common_dtype(a, b))


_COMPARISONS: dict[str, type[ops.Broadcast]] = {
    "eq": ops.Equal,
    "ne": ops.NotEqual,
    "lt": ops.Less,
    "le": ops.LessEqual,
    "gt": ops.Greater,
    "ge": ops.GreaterEqual,
}
for _name, _op in _COMPARISONS.items():
    converts(_name)(partial(_compared, _op))


# ---- truth values: chosen, so that no arithmetic on them is needed


def _truth(call: Call, given: Operand) -> Value:
    return call.value(given, "bool")


def chosen(call: Call, condition: Value, a: Value, b: Value) -> Value:
    """Take elements of the second value where the first is true, else of the third."""
    shape = call.type.shape
    parts = [call.expand(each, shape) for each in (condition, a, b)]
    return call.apply(ops.Where(), *parts)


def _and(call: Call, a: Operand, b: Operand) -> Value:
    first = _truth(call, a)
    return chosen(call, first, _truth(call, b), call.constant(False))


def _or(call: Call, a: Operand, b: Operand) -> Value:
    return chosen(call, _truth(call, a), call.constant(True), _truth(call, b))


def _xor(call: Call, a: Operand, b: Operand) -> Value:
    return call.apply(ops.NotEqual(), _truth(call, a), _truth(call, b))


def _not(call: Call, a: Operand) -> Value:
    return chosen(call, _truth(call, a), call.constant(False), call.constant(True))


def _of_truth(function: Callable[..., Value], call: Call, *operands: Operand) -> Value:
    """Apply a function of truth values, or of the bits of whole numbers."""
    dtype = call.type.dtype
    if dtype == "bool":
        return function(call, *operands)
    if len(operands) == 1:
        return call.binary(ops.BitwiseXor, operands[0], -1, dtype)
    a, b = operands
    return call.binary(_BITS[function], a, b, dtype)


_BITS: dict[Callable[..., Value], type[ops.Broadcast]] = {
    _and: ops.BitwiseAnd,
    _or: ops.BitwiseOr,
    _xor: ops.BitwiseXor,
}


for _names, _function in (
    (("logical_and", "bitwise_and", "__and__"), _and),
    (("logical_or", "bitwise_or", "__or__"), _or),
    (("logical_xor", "bitwise_xor", "__xor__"), _xor),
    (("logical_not", "bitwise_not"), _not),
):
    converts(*_names)(partial(_of_truth, _function))


def _shifted(op: type[ops.Broadcast], call: Call, a: Operand, b: Operand) -> Value:
    """Shift bits; none is left where they move by all their places, or by a negative number.

    C leaves such shifts undefined, so no kernel computes one.
    """
    dtype = call.type.dtype
    bits = np.iinfo(dtype).bits
    if not isinstance(b, Value):
        b = b if 0 <= b < bits else bits  # another number may not be one of the dtype
    data, places = call.value(a, dtype), call.value(b, dtype)
    zero, most = call.constant(0, dtype), call.constant(bits - 1, dtype)
    if isinstance(places, Constant) and ((places.array >= 0) & (places.array < bits)).all():
        return call.apply(op(), data, places)
    inside = call.apply(
        ops.LogicalAnd(), call.apply(ops.GreaterEqual(), places, zero),
        call.apply(ops.LessEqual(), places, most),
    )  # fmt: skip
    moved = call.apply(op(), data, chosen(call, inside, places, zero))
    lost: Value = zero
    if op is ops.RightShift and dtype != "uint8":  # copies of the sign
        lost = chosen(call, call.apply(ops.Less(), data, zero), call.constant(-1, dtype), zero)
    return chosen(call, inside, moved, lost)


for _names, _shift in (
    (("__lshift__", "bitwise_left_shift"), ops.LeftShift),
    (("__rshift__", "bitwise_right_shift"), ops.RightShift),
):
    converts(*_names)(partial(_shifted, _shift))


@converts("where")
def where(call: Call, condition: Value, a: Operand, b: Operand) -> Value:
    """Choose by a condition."""
    dtype = call.type.dtype
    return chosen(call, _truth(call, condition), call.value(a, dtype), call.value(b, dtype))


@converts("masked_fill")
def masked_fill(call: Call, x: Value, mask: Value, number: Operand) -> Value:
    """Put a number where a mask is true."""
    dtype = call.type.dtype
    return chosen(call, _truth(call, mask), call.value(number, dtype), call.value(x, dtype))


@converts("addcmul")
def add_product(call: Call, x: Value, a: Value, b: Value, value: Operand = 1) -> Value:
    """Add a multiple of a product."""
    dtype = call.type.dtype
    product = call.binary(ops.Multiply, a, b, dtype)
    if value != 1:
        product = call.binary(ops.Multiply, product, value, dtype)
    return call.binary(ops.Add, x, product, dtype)
