"""Operators on tensors that broadcast: arithmetic, comparisons, logic, choices."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from autotune.graph import Constant, Operator, Value, ops
from autotune.importers.onnx.call import Call, Converter


def scalar(call: Call, value: Value, other: Value) -> Value:
    """Return a constant of one element without dimensions: then it is part of a kernel's text."""
    if isinstance(value, Constant) and value.type.size == 1 and value.type.ndim <= other.type.ndim:
        return call.reshape(value, ())
    return value


def combined(call: Call, op: Operator, a: Value, b: Value) -> Value:
    """Combine two tensors that broadcast."""
    return call.apply(op, scalar(call, a, b), scalar(call, b, a))


def _operands(call: Call) -> tuple[Value, Value]:
    """Return both; up to opset 6 the second one could be aligned to an axis of the first."""
    a, b = call.value(0), call.value(1)
    axis: int | None = call.node.attributes.get("axis")
    if call.opset < 7 and axis is not None:
        behind = a.type.ndim - call.axis(axis, a.type.ndim) - b.type.ndim
        b = call.reshape(b, (*b.shape, *[1] * behind))
    return a, b


def binary(op: Callable[[], Operator]) -> Converter:
    """Return the converter to an operator of two tensors."""
    return lambda call: combined(call, op(), *_operands(call))


def _divide(call: Call) -> Value:
    a, b = _operands(call)
    if "float" in a.dtype:
        return combined(call, ops.Divide(), a, b)
    return combined(call, ops.TruncDivide(), a, _not_zero(call, b))


def _not_zero(call: Call, divisor: Value) -> Value:
    """Return a whole divisor with 1 in place of 0, which would end the process on a CPU.

    A branch that is not taken, or a loop that has ended, may divide by 0 where it is computed too.
    """
    known = call.numbers(divisor)
    if known is not None and known.all():
        return divisor
    zero = call.binary(ops.Equal, divisor, 0)
    return chosen(call, zero, call.number(1, divisor), divisor)


def _many(op: Callable[[], Operator]) -> Converter:
    """Return the converter of an operator of any number of tensors."""

    def convert(call: Call) -> Value:
        first, *rest = call.values()
        for each in rest:
            first = combined(call, op(), first, each)
        return first

    return convert


def _mean(call: Call) -> Value:
    total = _many(ops.Add)(call)
    return call.binary(ops.Divide, total, len(call.inputs))


def _mod(call: Call) -> Value:
    """Return the remainder with the sign of the dividend with ``fmod``, else of the divisor."""
    a, b = _operands(call)
    is_whole = "float" not in a.dtype
    b = _not_zero(call, b) if is_whole else b
    if call.attribute("fmod", 0):
        return combined(call, ops.Mod(), a, b)
    if is_whole:
        return combined(call, ops.FloorMod(), a, b)
    # An infinite divisor has a remainder; a quotient that is rounded would give none.
    rest = combined(call, ops.Mod(), a, b)
    signs = [call.binary(ops.Less, each, 0) for each in (rest, b)]
    differs = call.apply(ops.LogicalXor(), *signs)
    wrong = call.apply(ops.LogicalAnd(), call.binary(ops.NotEqual, rest, 0), differs)
    return chosen(call, wrong, combined(call, ops.Add(), rest, b), rest)


def _power(call: Call) -> Value:
    """Return the power; of whole exponents up to 3 products, which are exact for any base."""
    base, exponent = _operands(call)
    number = call.numbers(call.operand(1))
    if number is not None and number.size == 1 and exponent.type.ndim <= base.type.ndim:
        value = float(number.reshape(())[()])
        if value == 0.5:
            return call.apply(ops.Sqrt(), base)
        if value in (1, 2, 3):
            square = base if value == 1 else call.apply(ops.Multiply(), base, base)
            return square if value < 3 else call.apply(ops.Multiply(), square, base)
    if base.dtype == exponent.dtype and "float" in base.dtype:
        return combined(call, ops.Power(), base, exponent)
    kind = base.dtype if "float" in base.dtype else "float64"
    made = combined(call, ops.Power(), call.cast(base, kind), call.cast(exponent, kind))
    return call.cast(made, base.dtype)


def _where(call: Call) -> Value:
    return chosen(call, *call.values())


def chosen(call: Call, condition: Value, x: Value, y: Value) -> Value:
    """Return the elements of x where a condition is met, else of y; all three broadcast."""
    shape: Sequence[int] = np.broadcast_shapes(condition.shape, x.shape, y.shape)
    parts = [call.broadcast(each, shape) for each in (condition, x, y)]
    return call.apply(ops.Where(), *parts)


def _shift(call: Call) -> Value:
    """Shift; by the width or more nothing is left but, to the right, the sign."""
    x, amount = _operands(call)
    left = call.attribute("direction", "") == "LEFT"
    op = ops.LeftShift() if left else ops.RightShift()
    last = np.iinfo(x.dtype).bits - 1
    small = call.binary(ops.LessEqual, amount, last)
    if x.dtype.startswith("int"):
        positive = call.binary(ops.GreaterEqual, amount, 0)
        small = call.apply(ops.LogicalAnd(), small, positive)
    within = chosen(call, small, amount, call.number(last, amount))
    shifted = combined(call, op, x, within)
    if not left and x.dtype.startswith("int"):
        return shifted
    return chosen(call, small, shifted, call.number(0, x))


def _inverted(call: Call) -> Value:
    x = call.value(0)
    ones = -1 if x.dtype.startswith("int") else np.iinfo(x.dtype).max
    return call.binary(ops.BitwiseXor, x, ones)


CONVERTERS: dict[str, Converter] = {
    "Add": binary(ops.Add),
    "Sub": binary(ops.Subtract),
    "Mul": binary(ops.Multiply),
    "Div": _divide,
    "Mod": _mod,
    "Pow": _power,
    "Sum": _many(ops.Add),
    "Mean": _mean,
    "Min": _many(ops.Minimum),
    "Max": _many(ops.Maximum),
    "Equal": binary(ops.Equal),
    "Less": binary(ops.Less),
    "LessOrEqual": binary(ops.LessEqual),
    "Greater": binary(ops.Greater),
    "GreaterOrEqual": binary(ops.GreaterEqual),
    "And": binary(ops.LogicalAnd),
    "Or": binary(ops.LogicalOr),
    "Xor": binary(ops.LogicalXor),
    "BitwiseAnd": binary(ops.BitwiseAnd),
    "BitwiseOr": binary(ops.BitwiseOr),
    "BitwiseXor": binary(ops.BitwiseXor),
    "BitwiseNot": _inverted,
    "BitShift": _shift,
    "Where": _where,
}
