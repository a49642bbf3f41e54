"""GELU and SiLU as they are written in arithmetic."""

from __future__ import annotations

import math

from autotune.graph import ops
from autotune.graph.passes.composing import Reader, scalar_of, with_scalar
from autotune.graph.value import Node, Value, apply

# How far a factor may be from the one that is meant, and be that in the arithmetic of a dtype.
_ROUNDED = {"float16": 1e-3, "bfloat16": 8e-3}


def activation(reader: Reader, node: Node, inputs: tuple[Value, ...]) -> Value | None:
    """Return the GELU or SiLU that a product, or a quotient, is.

    GELU is written as ``x * 0.5 * (1 + erf(x / sqrt(2)))``, the factors in any order and the
    half anywhere; SiLU as ``x * sigmoid(x)`` or ``x / (1 + exp(-x))``.
    """
    if not isinstance(node.op, ops.Multiply | ops.Divide):
        return None
    found = _gelu(reader, node, inputs) or _silu(reader, node, inputs)
    if found is None or found[1].type != node.output.type:
        return None
    return apply(found[0], found[1], origin=node.origin)


Applied = tuple[ops.Gelu | ops.Silu, Value]


def _silu(reader: Reader, node: Node, inputs: tuple[Value, ...]) -> Applied | None:
    """Return SiLU and what it is applied to."""
    if isinstance(node.op, ops.Divide):
        data, under = inputs
        return (ops.Silu(), data) if _exponent(reader, under) is data else None
    for data, other in (inputs, inputs[::-1]):
        sigmoid = reader.made_by(other, ops.Sigmoid)
        if sigmoid and sigmoid.inputs[0] is data:
            return ops.Silu(), data
    return None


def _exponent(reader: Reader, value: Value) -> Value | None:
    """Return x where a value is ``1 + exp(-x)``."""
    total = reader.made_by(value, ops.Add)
    parts = with_scalar(total.inputs) if total else None
    power = reader.made_by(parts[0], ops.Exp) if parts and parts[1] == 1 else None
    if power is None:
        return None
    if negative := reader.made_by(power.inputs[0], ops.Negative):
        return negative.inputs[0]
    product = reader.made_by(power.inputs[0], ops.Multiply)
    turned = with_scalar(product.inputs) if product else None
    return turned[0] if turned and turned[1] == -1 else None


def _gelu(reader: Reader, node: Node, inputs: tuple[Value, ...]) -> Applied | None:
    """Return GELU and what it is applied to: ``number * x * (a + b * erf(c * x))``."""
    for part in _factors(reader, node.op, inputs)[1]:
        total = reader.made_by(part, ops.Add)
        parts = with_scalar(total.inputs) if total else None
        if parts is None:
            continue
        weight, (inner, *rest) = _product(reader, parts[0])
        erf = None if rest else reader.made_by(inner, ops.Erf)
        data = _scaled(reader, erf.inputs[0]) if erf else None
        if data is None:
            continue
        number, values = _factors(reader, node.op, inputs, data)
        both = set(values) == {data, part} and len(values) == 2
        halves = (number * parts[1], number * weight)
        if both and all(_near(each, 0.5, data) for each in halves):
            return ops.Gelu(), data
    return None


def _scaled(reader: Reader, value: Value) -> Value | None:
    """Return what is divided by the root of 2."""
    product, quotient = reader.made_by(value, ops.Multiply), reader.made_by(value, ops.Divide)
    made = product or quotient
    parts = with_scalar(made.inputs) if made else None
    if made is None or parts is None or not parts[1]:
        return None
    by = parts[1] if product else 1 / parts[1]
    first = product is not None or parts[0] is made.inputs[0]
    return parts[0] if first and _near(by, math.sqrt(0.5), value) else None


def _near(number: float, wanted: float, like: Value) -> bool:
    return abs(number / wanted - 1) <= _ROUNDED.get(like.dtype, 1e-6)


def _factors(
    reader: Reader, op: object, inputs: tuple[Value, ...], whole: Value | None = None
) -> tuple[float, tuple[Value, ...]]:
    """Return a product, or a quotient, as a number and values; ``whole`` is not taken apart."""
    first, values = _product(reader, inputs[0], whole)
    second, others = _product(reader, inputs[1], whole)
    if isinstance(op, ops.Multiply):
        return first * second, values + others
    if others or not second:
        return 1.0, ()  # a quotient of tensors
    return first / second, values


def _product(
    reader: Reader, value: Value, whole: Value | None = None
) -> tuple[float, tuple[Value, ...]]:
    """Return a value as a number and values whose product it is."""
    number = scalar_of(value)
    if number is not None:
        return number, ()
    made = reader.made_by(value, ops.Multiply) or reader.made_by(value, ops.Divide)
    if made is None or value is whole:
        return 1.0, (value,)
    found, values = _factors(reader, made.op, made.inputs, whole)
    return (found, values) if values else (1.0, (value,))
