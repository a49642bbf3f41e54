"""Recognises GELU and SiLU in arithmetic."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from autotune.graph import ops
from autotune.graph.passes.composing import GraphReader, Matched, scalar_of, with_scalar
from autotune.graph.value import Node, Value, apply

# How far a factor may be from the one that is meant, and be that in the arithmetic of a dtype.
_ROUNDED = {"float16": 2e-3, "bfloat16": 1.6e-2}


@dataclass(frozen=True)
class _Form:
    """The argument of the function in a GELU, and the operator's name for that form.

    Attributes:
        powers: coefficients of a polynomial of the data, by powers.
        approximate: of the operator.
    """

    powers: Mapping[int, float]
    approximate: str


_ROOT = math.sqrt(2 / math.pi)
_FORMS = {
    "erf": _Form({1: math.sqrt(0.5)}, "none"),
    "tanh": _Form({1: _ROOT, 3: _ROOT * 0.044715}, "tanh"),
}


def activation(reader: GraphReader, node: Node, inputs: tuple[Value, ...]) -> Value | None:
    """Return the GELU or SiLU that a product, or a quotient, is.

    GELU is written as ``x * 0.5 * (1 + erf(x / sqrt(2)))``, the factors in any order and the
    half anywhere, or approximated, with ``tanh(sqrt(2 / pi) * (x + 0.044715 * x^3))`` in place of
    erf; SiLU as ``x * sigmoid(x)`` or ``x / (1 + exp(-x))``.
    """
    if not isinstance(node.op, ops.Multiply | ops.Divide):
        return None
    found = _gelu(reader, node, inputs) or _silu(reader, node, inputs)
    if found is None or found[1].type != node.output.type:
        return None
    return apply(found[0], found[1])


Applied = tuple[ops.Gelu | ops.Silu, Value]


def _silu(reader: GraphReader, node: Node, inputs: tuple[Value, ...]) -> Applied | None:
    """Return SiLU and what it is applied to."""
    if isinstance(node.op, ops.Divide):
        data, under = inputs
        return (ops.Silu(), data) if _exponent(reader, under) is data else None
    for data, other in (inputs, inputs[::-1]):
        sigmoid = reader.made_by(other, ops.Sigmoid)
        if sigmoid and sigmoid.inputs[0] is data:
            return ops.Silu(), data
    return None


def _exponent(reader: GraphReader, value: Value) -> Value | None:
    """Return x where a value is ``1 + exp(-x)``."""
    total = reader.made_by(value, ops.Add)
    parts = with_scalar(total.inputs) if total else None
    power = reader.made_by(parts[0], ops.Exp) if parts and parts[1] == 1 else None
    if power is None:
        return None
    if negative := reader.made_by(power.inputs[0], ops.Negative):
        return negative.inputs[0]
    product = reader.made_by(power.inputs[0], ops.Multiply)
    found = with_scalar(product.inputs) if product else None
    return found[0] if found and found[1] == -1 else None


def _gelu(reader: GraphReader, node: Node, inputs: tuple[Value, ...]) -> Applied | None:
    """Return GELU and what it is applied to: ``number * x * (a + b * f(p(x)))``."""
    for part in _factors(reader, node.op, inputs)[1]:
        total = reader.made_by(part, ops.Add)
        parts = with_scalar(total.inputs) if total else None
        if parts is None:
            continue
        weight, (inner, *rest) = _product(reader, parts[0])
        made = reader.made_by(inner, ops.Erf) or reader.made_by(inner, ops.Tanh)
        if made is None or rest:
            continue
        form = _FORMS[made.op.name]
        for data in _within(reader, inputs):
            number, values = _factors(reader, node.op, inputs, data)
            both = set(values) == {data, part} and len(values) == 2
            halves = (number * parts[1], number * weight)
            if not both or not all(_near(each, 0.5, data) for each in halves):
                continue
            powers = _polynomial(reader, made.inputs[0], data)
            fits = powers is not None and powers.keys() == form.powers.keys()
            if powers and fits and all(_near(powers[i], c, data) for i, c in form.powers.items()):
                return ops.Gelu(form.approximate), data
    return None


def _within(reader: GraphReader, values: tuple[Value, ...]) -> Iterator[Value]:
    """Yield values and what they are products of."""
    for value in values:
        made = reader.made_by(value, ops.Multiply) or reader.made_by(value, ops.Divide)
        if scalar_of(value) is None:
            yield value
        if made is not None:
            yield from _within(reader, made.inputs)


def _polynomial(reader: GraphReader, value: Value, data: Value) -> dict[int, float] | None:
    """Return the coefficients, by powers, of a polynomial of the data; None of all else."""
    number = scalar_of(value)
    if value is data or number is not None:
        return {1: 1.0} if number is None else {0: number}
    made: Matched[Any] | None = None
    for kind in (ops.Add, ops.Multiply, ops.Divide, ops.Power):
        made = made or reader.made_by(value, kind)
    parts = [_polynomial(reader, each, data) for each in made.inputs] if made else [None]
    known = [each for each in parts if each is not None]
    if made is None or len(known) < 2:
        return None
    first, second = known
    if isinstance(made.op, ops.Add):
        return {i: first.get(i, 0.0) + second.get(i, 0.0) for i in {*first, *second}}
    if isinstance(made.op, ops.Multiply):
        return _times(first, second)
    if second.keys() != {0} or not second[0]:
        return None
    if isinstance(made.op, ops.Divide):
        return _times(first, {0: 1 / second[0]})
    return {2: _times(first, first), 3: _times(first, _times(first, first))}.get(int(second[0]))


def _times(first: dict[int, float], second: dict[int, float]) -> dict[int, float]:
    found: dict[int, float] = {}
    for (i, a), (j, b) in itertools.product(first.items(), second.items()):
        found[i + j] = found.get(i + j, 0.0) + a * b
    return found


def _near(number: float, wanted: float, like: Value) -> bool:
    return abs(number / wanted - 1) <= _ROUNDED.get(like.dtype, 1e-6)


def _factors(
    reader: GraphReader, op: object, inputs: tuple[Value, ...], whole: Value | None = None
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
    reader: GraphReader, value: Value, whole: Value | None = None
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
