"""Checks of operators' arguments: a rule for each kind, worded by `autotune.utils.check`.

A rule is given who asks, the argument's name and what came; it returns the value in its plain
form, or raises. An operator names the rules of its arguments::

    @takes(x=tensor, alpha=number)
    def leaky_relu(x, alpha): ...

    leaky_relu(5, 0.1)  # ExpressionError: leaky_relu: x must be a tensor (...), got 5
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence, Set
from functools import wraps
from inspect import signature
from numbers import Integral, Real
from typing import Any, ParamSpec, TypeVar

from autotune.errors import ExpressionError
from autotune.ir import (
    Expr,
    FloatImm,
    IntImm,
    IterVar,
    Operand,
    as_expr,
    check_dtype,
    is_int,
    same,
    whole,
)
from autotune.te.tensor import Extent, Tensor
from autotune.utils.check import Check, is_whole

P = ParamSpec("P")
R = TypeVar("R")
T = TypeVar("T")
# Takes who asks, the name of an argument and what came; returns its plain form, or raises.
Rule = Callable[[Check, str, object], T]

_TENSOR = "a tensor (of te.placeholder, te.compute or topi)"


def takes(**rules: Rule[object]) -> Callable[[Callable[P, R]], Callable[P, R]]:
    """Have an operator's arguments checked and made plain before it sees them."""

    def decorate(function: Callable[P, R]) -> Callable[P, R]:
        names = list(signature(function).parameters)
        check = asks(function.__name__)

        def plain(name: str, value: object) -> object:
            return rules[name](check, name, value) if name in rules else value

        @wraps(function)
        def checked(*args: P.args, **kwargs: P.kwargs) -> R:
            given: Any = [plain(*pair) for pair in zip(names, args, strict=False)]
            given += args[len(names) :]  # too many are Python's to refuse
            named: Any = {name: plain(name, value) for name, value in kwargs.items()}
            return function(*given, **named)

        return checked

    return decorate


def asks(owner: str) -> Check:
    """Return the checks of an operator."""
    return Check(ExpressionError, owner)


def optional(rule: Rule[T]) -> Rule[T | None]:
    """Return a rule that lets None pass."""
    return lambda check, name, value: None if value is None else rule(check, name, value)


def tensor(check: Check, name: str, value: object) -> Tensor:
    """Return a tensor."""
    check.kind(name, value, Tensor, _TENSOR)
    assert isinstance(value, Tensor)
    return value


def tensors(check: Check, name: str, value: object) -> list[Tensor]:
    """Return one or more tensors."""
    given = check_list(check, name, value, "a list of tensors")
    if not given:
        check.refuse(name, "a list of at least one tensor", value)
    return [tensor(check, f"{name}[{i}]", each) for i, each in enumerate(given)]


def operand(check: Check, name: str, value: object) -> object:
    """Return a tensor, an expression or a number."""
    check.kind(name, value, (Tensor, Operand, Real), f"{_TENSOR} or a number")
    return value


def number(check: Check, name: str, value: object) -> float:
    """Return a number, also an infinite one."""
    plain: float = value.value if isinstance(value, FloatImm | IntImm) else value  # type: ignore[assignment]
    check.kind(name, plain, Real, "a number")
    return plain


def value_of_element(check: Check, name: str, value: object) -> Expr | float:
    """Return a number or an expression."""
    return value if isinstance(value, Expr) else number(check, name, value)


def flag(check: Check, name: str, value: object) -> bool:
    """Return True or False."""
    return check.flag(name, value.value if isinstance(value, IntImm) else value)


def dtype(check: Check, name: str, value: object) -> str:
    """Return the name of a dtype."""
    try:
        return check_dtype(value)
    except ExpressionError:
        check.refuse(name, "a dtype such as 'float32'", value)


def dtype_or_none(check: Check, name: str, value: object) -> str | None:
    """Return the name of a dtype, or None for none; TVM's scripts write "" for that."""
    given = value is not None and not (isinstance(value, str) and not value)
    return dtype(check, name, value) if given else None


def text(check: Check, name: str, value: object) -> str:
    """Return a text that is not empty."""
    return check.text(name, value)


def check_list(check: Check, name: str, value: object, expected: str) -> list[object]:
    """Return what has an order - lists, tuples, arrays, generators - as a list."""
    unordered = isinstance(value, str | bytes | Mapping | Set)
    if unordered or not isinstance(value, Iterable) or getattr(value, "ndim", 1) != 1:
        check.refuse(name, expected, value)
    return list(value)


def integer(least: float, most: float = float("inf")) -> Rule[int]:
    """Return the rule of a whole number within bounds."""
    return lambda check, name, value: check.whole(name, plain_integer(value), least, most)


def plain_integer(value: object) -> object:
    """Return a constant expression, or a float without a fraction, as an int."""
    number = whole(value)
    return number.value if isinstance(number, IntImm) else number


def integers(least: float) -> Rule[list[int]]:
    """Return the rule of a list of whole numbers."""

    def rule(check: Check, name: str, value: object) -> list[int]:
        given = check_list(check, name, value, "a list of whole numbers")
        return [check.whole(f"{name}[{i}]", plain_integer(n), least) for i, n in enumerate(given)]

    return rule


def shape(check: Check, name: str, value: object) -> tuple[Extent, ...]:
    """Return extents, of which any may be symbolic; a single one is one dimension."""
    single = isinstance(value, Real | Operand)
    given = [value] if single else check_list(check, name, value, "a list of extents")
    return tuple(_extent(check, name, each) for each in given)


def _extent(check: Check, name: str, value: object) -> Extent:
    plain = plain_integer(value.var if isinstance(value, IterVar) else value)
    if isinstance(plain, Expr) and is_int(plain.dtype):
        return plain
    return check.whole(name, plain, least=1)


def pair(least: int = 1) -> Rule[tuple[int, int]]:
    """Return the rule of a whole number for both directions: one, or two of them."""

    def rule(check: Check, name: str, value: object) -> tuple[int, int]:
        given: Sequence[object] = (value, value)
        if isinstance(value, Sequence) and not isinstance(value, str) and len(value) == 2:
            given = value
        numbers = [plain_integer(each) for each in given]
        whole = [n for n in numbers if isinstance(n, int | Integral) and is_whole(n, least)]
        if len(whole) != 2:
            check.refuse(name, f"a whole number of at least {least}, or two of them", value)
        return int(whole[0]), int(whole[1])

    return rule


def axis_of(check: Check, name: str, value: object, ndim: int) -> int:
    """Return an axis counted from the front."""
    return check.whole(name, plain_integer(value), least=-ndim, most=ndim - 1) % ndim


def axes_of(check: Check, name: str, value: object, ndim: int) -> list[int]:
    """Return one, several or (for None) all axes in the order given, counted from the front."""
    if value is None:
        return list(range(ndim))
    several = isinstance(value, Iterable | str)
    given = (
        check_list(check, name, value, "a whole number or a list of them") if several else [value]
    )
    found = [axis_of(check, name, each, ndim) for each in given]
    if len(set(found)) < len(found):
        check.refuse(name, "different axes", value, ": an axis is given twice")
    return found


def same_shape(check: Check, name: str, value: Tensor, expected: Sequence[object]) -> None:
    """Refuse a tensor of another shape; any of the extents may be symbolic."""
    fits = value.ndim == len(expected) and all(
        same(as_expr(own), as_expr(other))
        for own, other in zip(value.shape, expected, strict=True)
    )
    if not fits:
        check.refuse(name, f"a tensor of shape ({', '.join(map(str, expected))})", value)
