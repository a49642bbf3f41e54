"""Expressions of filters, of which parts can be computed before all knobs are chosen.

Sums and products are lists of terms and factors, in whatever order a filter added and multiplied
them: what the knobs chosen so far contribute is one number. Equal expressions are one object.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from math import prod
from typing import Any

import numpy as np

from autotune.task.constraints.symbols import Function, Symbol, Values

# A number, or an array of them.
Number = Any
Bounds = tuple[Number, Number]
# Products of spans below this fit into 64 bits.
EXACT = 1 << 62


@dataclass(frozen=True, eq=False)
class Expression:
    """A node.

    Attributes:
        knobs: on which it depends.
        span: bounds of its value over all points.
        whole: whether its value is an integer.
    """

    knobs: frozenset[int]
    span: tuple[float, float]
    whole: bool


@dataclass(frozen=True, eq=False)
class Leaf(Expression):
    """A function of one knob; ``table`` has its value by digit."""

    knob: int
    table: Values


@dataclass(frozen=True, eq=False)
class Chain(Expression):
    """The sum or the product of ``parts`` and of a number, all integers."""

    function: Function
    constant: int
    parts: tuple[Expression, ...]


@dataclass(frozen=True, eq=False)
class Operation(Expression):
    """Any other function of two values, of which one may be a number.

    Attributes:
        followed: whether bounds of its value follow from those of the two.
    """

    function: Function
    left: Operand
    right: Operand
    followed: bool


Operand = Expression | float


@dataclass
class ExpressionBuilder:
    """Makes expressions, each once."""

    _made: dict[object, Expression] = field(default_factory=dict)
    # Keeps the symbols: an id is unique only while its object lives.
    _of: dict[int, tuple[Symbol, Operand]] = field(default_factory=dict)

    def expression(self, value: Symbol | float) -> Operand:
        """Return the expression of a symbol; a number is its own."""
        if type(value) is not Symbol:
            assert isinstance(value, (int, float))
            return value
        if id(value) not in self._of:
            self._of[id(value)] = value, self._of_symbol(value)
        return self._of[id(value)][1]

    def leaf(self, knob: int, table: Values) -> Expression:
        """Return a function of one knob."""
        span = float(table.min()), float(table.max())
        whole = table.dtype.kind in "iub"
        made = Leaf(frozenset([knob]), span, whole, knob, table)
        return self._once((knob, table.dtype.str, table.tobytes()), made)

    def looked_up(self, table: Values, parts: list[Expression]) -> Expression:
        """Return the truth in a flat table at a place, which is a sum."""
        place: Operand = 0
        for part in parts:
            place = self._chain(operator.add, place, part)
        knobs = frozenset[int]().union(*(part.knobs for part in parts))
        made = Operation(knobs, (0, 1), True, lambda at, _: table[at], place, 0, False)
        return self._once((id(made),), made)

    def _of_symbol(self, symbol: Symbol) -> Operand:
        function = symbol.function
        if function is None:
            (knob,) = symbol.knobs
            return self.leaf(knob, symbol.table)
        left, right = (self.expression(each) for each in symbol.args)
        whole = _is_whole(left) and _is_whole(right)
        if whole and function is operator.sub:
            return self._chain(operator.add, left, self._chain(operator.mul, right, -1))
        if whole and function in (operator.add, operator.mul):
            return self._chain(function, left, right)
        return self._operation(function, left, right, symbol.span)

    def _operation(
        self, function: Function, left: Operand, right: Operand, span: Bounds
    ) -> Expression:
        spans = span_of(left), span_of(right)
        followed = _is_followed(function, *spans)
        if followed:
            span = _static(bounds_of(function, *spans))
        both = [each for each in (left, right) if isinstance(each, Expression)]
        knobs = frozenset[int]().union(*(each.knobs for each in both))
        whole = _is_whole(left) and _is_whole(right) and function is not operator.truediv
        made = Operation(knobs, span, whole, function, left, right, followed)
        return self._once((function, _key(left), _key(right)), made)

    def _chain(self, function: Function, left: Operand, right: Operand) -> Operand:
        """Return the sum or product of two integers, each of which may be one itself."""
        constant, found = neutral(function), list[Expression]()
        for each in (left, right):
            if isinstance(each, Chain) and each.function is function:
                constant = _combine(function, constant, each.constant)
                found += each.parts
            elif isinstance(each, Expression):
                found.append(each)
            else:
                constant = _combine(function, constant, int(each))
        parts = self._one_a_knob(function, found)
        if not parts:
            return constant
        if len(parts) == 1 and constant == neutral(function):
            return parts[0]
        if len(parts) == 1 and isinstance(parts[0], Leaf):
            return self.leaf(parts[0].knob, computed(function, parts[0].table, constant))
        spans = [(constant, constant), *(part.span for part in parts)]
        span = _join(function, spans)
        several = len(set(parts)) < len(parts)  # parts of a chain are a set: x + x is none
        if several or prod(max(1.0, -low, high) for low, high in spans) >= EXACT:
            return self._operation(function, left, right, span)
        parts.sort(key=id)
        knobs = frozenset[int]().union(*(part.knobs for part in parts))
        made = Chain(knobs, span, True, function, constant, tuple(parts))
        return self._once((function, constant, *map(id, parts)), made)

    def _one_a_knob(self, function: Function, parts: list[Expression]) -> list[Expression]:
        """Join the functions of the same knob."""
        tables: dict[int, Values] = {}
        for part in parts:
            if isinstance(part, Leaf):
                before = tables.get(part.knob)
                joined = part.table if before is None else computed(function, before, part.table)
                tables[part.knob] = joined
        leaves = [self.leaf(knob, table) for knob, table in tables.items()]
        return [*leaves, *(part for part in parts if not isinstance(part, Leaf))]

    def _once(self, key: object, made: Expression) -> Expression:
        return self._made.setdefault(key, made)


def neutral(function: Function) -> int:
    """Return the neutral element of a sum (0), or of a product (1)."""
    return 0 if function is operator.add else 1


def span_of(value: Operand) -> Bounds:
    """Return bounds of a value over all points."""
    return value.span if isinstance(value, Expression) else (value, value)


def least_of(function: Function, parts: Iterable[Expression]) -> int:
    """Return the lower bound of the sum or product of some integers."""
    return int(_join(function, [part.span for part in parts])[0])


def computed(function: Function, left: Number, right: Number) -> Number:
    """Return a function of two values; truth values are 0 and 1, as in Python."""
    result = np.asarray(function(left, right))
    return result.astype(np.int64) if result.dtype == np.bool_ else result


def bounds_of(function: Function, left: Bounds, right: Bounds) -> Bounds:
    """Return bounds of a function of two values within bounds, where they follow from those."""
    if function is operator.add:
        return left[0] + right[0], left[1] + right[1]
    if function is operator.sub:
        return left[0] - right[1], left[1] - right[0]
    if function in _COMPARED:
        return _COMPARED[function](left, right)
    if function in _OF_TRUTH:
        return _OF_TRUTH[function](left[0], right[0]), _OF_TRUTH[function](left[1], right[1])
    if function in (np.maximum, np.minimum):
        return function(left[0], right[0]), function(left[1], right[1])
    corners = [computed(function, a, b) for a in left for b in right]
    low, high = np.minimum(corners[0], corners[1]), np.maximum(corners[0], corners[1])
    for corner in corners[2:]:
        low, high = np.minimum(low, corner), np.maximum(high, corner)
    return low, high


def _equal(left: Bounds, right: Bounds) -> Bounds:
    same = (left[0] == left[1]) & (right[0] == right[1]) & (left[0] == right[0])
    return same, (left[0] <= right[1]) & (right[0] <= left[1])


def _differ(left: Bounds, right: Bounds) -> Bounds:
    low, high = _equal(left, right)
    return np.logical_not(high), np.logical_not(low)


_COMPARED: dict[Function, Callable[[Bounds, Bounds], Bounds]] = {
    operator.lt: lambda a, b: (a[1] < b[0], a[0] < b[1]),
    operator.le: lambda a, b: (a[1] <= b[0], a[0] <= b[1]),
    operator.gt: lambda a, b: (a[0] > b[1], a[1] > b[0]),
    operator.ge: lambda a, b: (a[0] >= b[1], a[1] >= b[0]),
    operator.eq: _equal,
    operator.ne: _differ,
}
# Of 0 and 1.
_OF_TRUTH: dict[Function, Callable[[Number, Number], Number]] = {
    operator.and_: np.minimum,
    operator.or_: np.maximum,
}


def _is_followed(function: Function, left: Bounds, right: Bounds) -> bool:
    """Return whether bounds of a function follow from those of two values within these spans."""
    if function in _OF_TRUTH:
        return bool(min(left[0], right[0]) >= 0 and max(left[1], right[1]) <= 1)
    if function in (operator.floordiv, operator.truediv):
        return bool(right[0] > 0)
    return function is not operator.mod


def _join(function: Function, spans: list[Bounds]) -> tuple[float, float]:
    bounds = spans[0]
    for span in spans[1:]:
        bounds = bounds_of(function, bounds, span)
    return _static(bounds)


def _static(bounds: Bounds) -> tuple[float, float]:
    return float(bounds[0]), float(bounds[1])


def _combine(function: Function, one: int, other: int) -> int:
    return one + other if function is operator.add else one * other


def _is_whole(value: Operand) -> bool:
    return value.whole if isinstance(value, Expression) else isinstance(value, int)


def _key(value: Operand) -> object:
    return (id(value),) if isinstance(value, Expression) else (type(value), value)
