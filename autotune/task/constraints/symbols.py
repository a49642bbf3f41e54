"""Numbers that are not known yet: expressions over knob values, evaluated later for many points.

A filter called with symbols instead of numbers builds, in one call, the expressions it compares.
Arithmetic follows Python's; whatever cannot be expressed raises `Opaque`, and the filter is then
treated as a black box.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping
from typing import Any, NoReturn, TypeVar, cast, final

import numpy as np
import numpy.typing as npt

# int64 or float64.
Values = npt.NDArray[Any]
Function = Callable[..., object]
# Numbers below this are exact in both int64 and float64.
EXACT = 1 << 53
Number = TypeVar("Number", int, float)
Span = tuple[float, float]
_NO_TABLE: Values = np.empty(0)

_DIVISIONS = (operator.floordiv, operator.truediv, operator.mod)
_COMPARISONS = (
    operator.lt, operator.le, operator.gt, operator.ge, operator.eq, operator.ne,
)  # fmt: skip
# Those that numpy computes of truth values as Python does.
_OF_BITS = frozenset([*_COMPARISONS, operator.and_, operator.or_])


class Opaque(BaseException):
    """A filter does something that symbols cannot follow.

    Not an `Exception`, so that a filter's own ``except Exception`` does not swallow it.
    """


@final
class Scope:
    """State shared by all symbols of one filter.

    A filter is called once for each path through it, and computes mostly the same each time. So
    equal expressions are one symbol, which is created once and decided once per path.

    Attributes:
        decide: called when the filter needs to know whether a symbol is true.
        made: the symbols by operator and ids of their operands; the operands are stored as well,
            as an id is unique only while its object exists.
    """

    __slots__ = ("decide", "made")

    def __init__(self, decide: Callable[[Symbol], bool]) -> None:
        self.decide = decide
        self.made: dict[object, tuple[Symbol, Operand, Operand]] = {}


@final
class Symbol:
    """A node of an expression.

    Attributes:
        function: combines the values of `args`; None for a function of one knob.
        args: symbols and plain numbers; none for a function of one knob.
        table: of a function of one knob, its value by digit; empty for others.
        knobs: the knobs it depends on.
        span: bounds of its value.
        scope: what it shares with the other symbols of its filter.
        partial: whether its value may not exist, because a divisor may be zero.
    """

    __slots__ = ("args", "function", "knobs", "partial", "scope", "span", "table")

    def __init__(
        self,
        function: Function | None,
        args: tuple[Operand, ...],
        knobs: frozenset[int],
        span: Span,
        scope: Scope,
        table: Values = _NO_TABLE,
    ) -> None:
        if not max(-span[0], span[1]) < EXACT:
            raise Opaque("a number is too large to be exact")
        self.function = function
        self.args = args
        self.table = table
        self.knobs = knobs
        self.span = span
        self.scope = scope
        self.partial = function in _DIVISIONS and _may_be_zero(args[1])
        self.partial |= any(a.partial for a in args if type(a) is Symbol)

    def evaluate(
        self, digits: Mapping[int, npt.NDArray[np.int64]], known: dict[int, Values]
    ) -> Values:
        """Return its value for many points, given the digits of the knobs it depends on.

        Args:
            digits: by knob; arrays that broadcast to the points.
            known: values of symbols at these points by id, to which those found here are added:
                what conditions have in common is computed once.
        """
        value = known.get(id(self))
        if value is None:
            if self.function is None:
                (knob,) = self.knobs
                value = np.asarray(self.table[digits[knob]])
            else:
                args = [a.evaluate(digits, known) if type(a) is Symbol else a for a in self.args]
                value = _call(self.function, *args)
            known[id(self)] = value
        return value

    def __bool__(self) -> bool:
        return self.scope.decide(self)

    def __index__(self) -> NoReturn:
        raise Opaque("a knob's value is used as an index")

    __hash__ = None  # type: ignore[assignment]

    def _no_text(self, *_: object) -> NoReturn:
        raise Opaque("a knob's value is used as text")

    __str__ = __repr__ = __format__ = _no_text

    # isinstance(value, int) in a filter is true, as for the number itself
    __class__ = property(lambda self: int)

    def __add__(self, other: object) -> Symbol:
        return _combine(operator.add, self, other)

    def __radd__(self, other: object) -> Symbol:
        return _combine(operator.add, other, self)

    def __sub__(self, other: object) -> Symbol:
        return _combine(operator.sub, self, other)

    def __rsub__(self, other: object) -> Symbol:
        return _combine(operator.sub, other, self)

    def __mul__(self, other: object) -> Symbol:
        return _combine(operator.mul, self, other)

    def __rmul__(self, other: object) -> Symbol:
        return _combine(operator.mul, other, self)

    def __floordiv__(self, other: object) -> Symbol:
        return _combine(operator.floordiv, self, other)

    def __rfloordiv__(self, other: object) -> Symbol:
        return _combine(operator.floordiv, other, self)

    def __truediv__(self, other: object) -> Symbol:
        return _combine(operator.truediv, self, other)

    def __rtruediv__(self, other: object) -> Symbol:
        return _combine(operator.truediv, other, self)

    def __mod__(self, other: object) -> Symbol:
        return _combine(operator.mod, self, other)

    def __rmod__(self, other: object) -> Symbol:
        return _combine(operator.mod, other, self)

    def __and__(self, other: object) -> Symbol:
        return _combine(operator.and_, self, other)

    def __rand__(self, other: object) -> Symbol:
        return _combine(operator.and_, other, self)

    def __or__(self, other: object) -> Symbol:
        return _combine(operator.or_, self, other)

    def __ror__(self, other: object) -> Symbol:
        return _combine(operator.or_, other, self)

    def __neg__(self) -> Symbol:
        return _combine(operator.sub, 0, self)

    def __lt__(self, other: object) -> Symbol:
        return _combine(operator.lt, self, other)

    def __le__(self, other: object) -> Symbol:
        return _combine(operator.le, self, other)

    def __gt__(self, other: object) -> Symbol:
        return _combine(operator.gt, self, other)

    def __ge__(self, other: object) -> Symbol:
        return _combine(operator.ge, self, other)

    def __eq__(self, other: object) -> Symbol:  # type: ignore[override]
        return _combine(operator.eq, self, other)

    def __ne__(self, other: object) -> Symbol:  # type: ignore[override]
        return _combine(operator.ne, self, other)


# A number, known or not yet. A symbol tells isinstance() that it is an int; type() knows better.
Operand = Symbol | float


def leaf(knob: int, table: Values, scope: Scope) -> Symbol:
    """Return a symbol for a value that depends on the digit of one knob."""
    if table.dtype == object:
        raise Opaque("a knob's numbers are too large")
    key = knob, table.dtype.str, table.tobytes()
    if key not in scope.made:
        span = float(table.min()), float(table.max())
        scope.made[key] = Symbol(None, (), frozenset([knob]), span, scope, table), 0, 0
    return scope.made[key][0]


def _combine(function: Function, one: object, other: object) -> Symbol:
    left, right = _operand(one), _operand(other)
    known = left if type(left) is Symbol else right
    assert type(known) is Symbol
    made = known.scope.made
    key = function, _name(left), _name(right)
    if key not in made:
        made[key] = _combined(function, left, right, known.scope), left, right
    return made[key][0]


def _name(value: Operand) -> object:
    """Return what tells operands apart; 1 and 1.0 give values of different types."""
    return id(value) if type(value) is Symbol else (type(value), value)


def _combined(function: Function, left: Operand, right: Operand, scope: Scope) -> Symbol:
    of_both = (value.knobs for value in (left, right) if type(value) is Symbol)
    knobs = frozenset[int]().union(*of_both)
    if len(knobs) == 1:  # a function of one knob is a table again, with exact bounds
        return leaf(next(iter(knobs)), _whole(_call(function, _table(left), _table(right))), scope)
    span = _bounds(function, _span(left), _span(right))
    return Symbol(function, (left, right), knobs, span, scope)


def _bounds(function: Function, left: Span, right: Span) -> Span:
    """Return bounds of ``function(a, b)`` for a and b within bounds."""
    if function is operator.add:
        return left[0] + right[0], left[1] + right[1]
    if function is operator.sub:
        return left[0] - right[1], left[1] - right[0]
    if function is operator.mul:
        corners = [a * b for a in left for b in right]
        return min(corners), max(corners)
    if function in _COMPARISONS:
        return 0, 1
    if function in (np.maximum, np.minimum):
        best = max if function is np.maximum else min
        return best(left[0], right[0]), best(left[1], right[1])
    largest = [max(abs(low), abs(high)) for low, high in (left, right)]
    if function is operator.mod:
        return -largest[1], largest[1]
    if function in (operator.and_, operator.or_):
        if is_truth(left) and is_truth(right):
            return 0, 1
        return -sum(largest) - 1, sum(largest) + 1
    if right[0] > 0:
        corners = [_quotient(function, a, b) for a in left for b in right]
        return min(corners), max(corners)
    # Of a divisor below 1 a quotient is a float, which cannot overflow.
    return -largest[0] - 1, largest[0] + 1


def _quotient(function: Function, left: float, right: float) -> float:
    return left // right if function is operator.floordiv else left / right


def is_truth(span: Span) -> bool:
    """Return whether integers within these bounds are truth values."""
    return span[0] >= 0 and span[1] <= 1


def _call(function: Function, *args: Values | float) -> Values:
    if function in _OF_BITS:
        return np.asarray(function(*args))
    # Truth values add up in Python; in numpy they do not.
    numbers = [_whole(arg) if isinstance(arg, np.ndarray) else arg for arg in args]
    if function not in _DIVISIONS:
        return np.asarray(function(*numbers))
    with np.errstate(divide="raise", invalid="raise"):
        return np.asarray(function(*numbers))


def _whole(values: Values) -> Values:
    """Return truth values as integers, and numbers unchanged."""
    return values.astype(np.int64) if values.dtype == np.bool_ else values


def _operand(value: object) -> Operand:
    if type(value) is Symbol:
        return value
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, (int, float)):
        return value
    raise Opaque(f"a knob's value meets {value!r}")


def _table(value: Operand) -> Values | float:
    return value.table if type(value) is Symbol else value


def _span(value: Operand) -> Span:
    return value.span if type(value) is Symbol else (value, value)


def _may_be_zero(value: Operand) -> bool:
    if type(value) is not Symbol:
        return bool(value == 0)
    if value.function is None:
        return bool((value.table == 0).any())
    return bool(value.span[0] <= 0 <= value.span[1])


def larger(left: Number, right: Number) -> Number:
    """Return the larger of two numbers, known or not; ``max`` would ask which it is."""
    if type(left) is Symbol or type(right) is Symbol:
        return cast(Number, _combine(np.maximum, left, right))
    return left + (right > left) * (right - left)


def smaller(left: Number, right: Number) -> Number:
    """Return the smaller of two numbers, known or not; ``min`` would ask which it is."""
    if type(left) is Symbol or type(right) is Symbol:
        return cast(Number, _combine(np.minimum, left, right))
    return left + (right < left) * (right - left)


def is_symbolic(value: object) -> bool:
    """Return whether a number is not known yet; ``isinstance`` says that it is an int."""
    return type(value) is Symbol
