"""Numbers that are not known yet: expressions over knob values, evaluated later for many points.

A filter called with symbols instead of numbers builds, in one call, the expressions it compares.
Arithmetic follows Python's; whatever cannot be expressed raises `Opaque`, and the filter is then
treated as a black box.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping
from typing import Any, NoReturn

import numpy as np
import numpy.typing as npt

Values = npt.NDArray[Any]
# Numbers below this are exact in both int64 and float64.
EXACT = 1 << 53


class Opaque(Exception):
    """A filter does something that symbols cannot follow."""


class Symbol:
    """A node of an expression.

    Attributes:
        function: combines the values of `args`; None for a function of one knob.
        args: symbols and plain numbers; for a function of one knob, its table by digit.
        knobs: the knobs it depends on.
        magnitude: bound of its absolute value.
        decide: called when the filter needs to know whether the symbol is true.
    """

    __slots__ = ("args", "decide", "function", "knobs", "magnitude")

    def __init__(
        self,
        function: Callable[..., Any] | None,
        args: tuple[Any, ...],
        knobs: frozenset[int],
        magnitude: float,
        decide: Callable[[Symbol], bool],
    ) -> None:
        if not magnitude < EXACT:
            raise Opaque("a number is too large to be exact")
        self.function = function
        self.args = args
        self.knobs = knobs
        self.magnitude = magnitude
        self.decide = decide

    def evaluate(self, digits: Mapping[int, npt.NDArray[np.int64]]) -> Values:
        """Return its value for many points, given the digits of the knobs it depends on."""
        if self.function is None:
            table: Values = self.args[0]
            (knob,) = self.knobs
            return np.asarray(table[digits[knob]])
        args = [a.evaluate(digits) if is_symbol(a) else a for a in self.args]
        return _call(self.function, *args)

    def __bool__(self) -> bool:
        return self.decide(self)

    def __index__(self) -> NoReturn:
        raise Opaque("a knob's value is used as an index")

    __hash__ = None  # type: ignore[assignment]

    def _no_text(self, *_: object) -> NoReturn:
        raise Opaque("a knob's value is used as text")

    __str__ = __repr__ = __format__ = _no_text

    # isinstance(value, int) in a filter is true, as for the number itself
    __class__ = property(lambda self: int)

    def __add__(self, other: Any) -> Symbol:
        return _combine(operator.add, self, other, lambda a, b: a + b)

    def __radd__(self, other: Any) -> Symbol:
        return _combine(operator.add, other, self, lambda a, b: a + b)

    def __sub__(self, other: Any) -> Symbol:
        return _combine(operator.sub, self, other, lambda a, b: a + b)

    def __rsub__(self, other: Any) -> Symbol:
        return _combine(operator.sub, other, self, lambda a, b: a + b)

    def __mul__(self, other: Any) -> Symbol:
        return _combine(operator.mul, self, other, lambda a, b: a * b)

    def __rmul__(self, other: Any) -> Symbol:
        return _combine(operator.mul, other, self, lambda a, b: a * b)

    def __floordiv__(self, other: Any) -> Symbol:
        return _combine(operator.floordiv, self, other, lambda a, b: a + 1)

    def __rfloordiv__(self, other: Any) -> Symbol:
        return _combine(operator.floordiv, other, self, lambda a, b: a + 1)

    def __truediv__(self, other: Any) -> Symbol:
        return _combine(operator.truediv, self, other, lambda a, b: a)

    def __rtruediv__(self, other: Any) -> Symbol:
        return _combine(operator.truediv, other, self, lambda a, b: a)

    def __mod__(self, other: Any) -> Symbol:
        return _combine(operator.mod, self, other, lambda a, b: b)

    def __rmod__(self, other: Any) -> Symbol:
        return _combine(operator.mod, other, self, lambda a, b: b)

    def __neg__(self) -> Symbol:
        return _combine(operator.sub, 0, self, lambda a, b: b)

    def __lt__(self, other: Any) -> Symbol:
        return _combine(operator.lt, self, other, _truth)

    def __le__(self, other: Any) -> Symbol:
        return _combine(operator.le, self, other, _truth)

    def __gt__(self, other: Any) -> Symbol:
        return _combine(operator.gt, self, other, _truth)

    def __ge__(self, other: Any) -> Symbol:
        return _combine(operator.ge, self, other, _truth)

    def __eq__(self, other: object) -> Any:
        return _combine(operator.eq, self, other, _truth)

    def __ne__(self, other: object) -> Any:
        return _combine(operator.ne, self, other, _truth)


def is_symbol(value: object) -> bool:
    """Return whether a value is a symbol; ``isinstance`` would be told it is an int as well."""
    return type(value) is Symbol


def _combine(
    function: Callable[..., Any], left: Any, right: Any, bound: Callable[[float, float], float]
) -> Symbol:
    left, right = _operand(left), _operand(right)
    knobs = frozenset[int]().union(*(v.knobs for v in (left, right) if is_symbol(v)))
    decide = (left if is_symbol(left) else right).decide
    if len(knobs) == 1:  # a function of one knob is a table again, with exact bounds
        return leaf(next(iter(knobs)), _call(function, _table(left), _table(right)), decide)
    magnitude = bound(_magnitude(left), _magnitude(right))
    return Symbol(function, (left, right), knobs, magnitude, decide)


def leaf(knob: int, table: Values, decide: Callable[[Symbol], bool]) -> Symbol:
    """Return a symbol for a value that depends on the digit of one knob."""
    if table.dtype == object:
        raise Opaque("a knob's numbers are too large")
    return Symbol(None, (table,), frozenset([knob]), float(np.abs(table).max()), decide)


def _call(function: Callable[..., Any], *args: Any) -> Values:
    with np.errstate(divide="raise", invalid="raise"):
        return np.asarray(function(*args))


def _table(value: Any) -> Any:
    return value.args[0] if is_symbol(value) else value


def _operand(value: Any) -> Any:
    if is_symbol(value):
        return value
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, (int, float)):
        return value
    raise Opaque(f"a knob's value meets {value!r}")


def _magnitude(value: Any) -> float:
    return float(value.magnitude if is_symbol(value) else abs(value))


def _truth(left: float, right: float) -> float:
    return 1
