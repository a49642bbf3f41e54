"""What functions of Python, math and numpy do with expressions: most are refused by name.

They compute numbers, and an expression has none while a program is being built.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any, NoReturn

from autotune.errors import ExpressionError

# Numpy calls them where one of its numbers stands on the left of an operator.
_OPERATORS: dict[str, Callable[..., Any]] = {
    "add": operator.add, "subtract": operator.sub, "multiply": operator.mul,
    "divide": operator.truediv, "true_divide": operator.truediv,
    "floor_divide": operator.floordiv, "remainder": operator.mod, "negative": operator.neg,
    "less": operator.lt, "less_equal": operator.le, "greater": operator.gt,
    "greater_equal": operator.ge, "equal": operator.eq, "not_equal": operator.ne,
}  # fmt: skip
# Functions of numpy that te names differently.
_RENAMED = {
    "maximum": "max", "minimum": "min", "fmax": "max", "fmin": "min", "absolute": "abs",
    "fabs": "abs", "float_power": "power", "rint": "nearbyint", "arctan2": "atan2",
    "logical_and": "all", "logical_or": "any", "matmul": "sum",
    **{f"arc{name}": f"a{name}" for name in ("sin", "cos", "tan", "sinh", "cosh", "tanh")},
}  # fmt: skip

# Reductions that numpy makes of its functions of two numbers.
_REDUCTIONS = {"add": "sum", "multiply": "prod", "maximum": "max", "minimum": "min"}
# Functions of whole tensors that have numpy's names.
_OF_TENSORS = frozenset({"matmul", "maximum", "minimum", "logical_and", "logical_or"})
# What may be named in place of numpy's functions: names alone, as both modules import this one.
_IN_BOTH = frozenset({
    "abs", "acos", "acosh", "asin", "asinh", "atan", "atanh", "ceil", "cos", "cosh", "exp",
    "floor", "isfinite", "isinf", "isnan", "log", "log10", "log2", "max", "min", "power", "sin",
    "sinh", "sqrt", "sum", "tan", "tanh", "trunc",
})  # fmt: skip
_INSTEAD = {
    "te": _IN_BOTH | {
        "all", "any", "atan2", "copysign", "exp2", "fmod", "hypot", "log1p", "nearbyint",
    },
    "topi": _IN_BOTH | _OF_TENSORS | {
        "bitwise_and", "bitwise_or", "bitwise_xor", "left_shift", "logical_not", "logical_xor",
        "prod", "right_shift", "sign",
    },
}  # fmt: skip


def numpy_of_expressions(
    one: object, ufunc: Any, method: str, *inputs: object, **options: object
) -> Any:
    """Apply an operator of numpy to expressions; this is their ``__array_ufunc__``.

    Raises:
        ExpressionError: it is not an operator, or an operand is an array.
    """
    return _apply(ufunc, method, inputs, "te")


def numpy_of_tensors(
    one: object, ufunc: Any, method: str, *inputs: object, **options: object
) -> Any:
    """Apply an operator of numpy to tensors; this is their ``__array_ufunc__``.

    Raises:
        ExpressionError: it is not an operator, or an operand is an array.
    """
    return _apply(ufunc, method, inputs, "topi")


def _advice(ufunc: Any, method: str, module: str) -> str:
    """Return what to write instead: a function of a module, if it has one for this."""
    name = _renamed(ufunc.__name__, method, module)
    if name in _INSTEAD[module]:
        return f"use {module}.{name}"
    return f"write it with operators and the functions of {module}"


def _renamed(name: str, method: str, module: str) -> str:
    """Return the name that a module has for a function of numpy, if it has one."""
    if method == "reduce":
        name = _REDUCTIONS.get(name, name)
    if module == "topi" and name in _OF_TENSORS:
        return name
    return _RENAMED.get(name, name)


def _apply(ufunc: Any, method: str, inputs: tuple[object, ...], module: str) -> Any:
    name, plain = ufunc.__name__, [_number(one) for one in inputs]
    if name not in _OPERATORS or method != "__call__":
        advice = _advice(ufunc, method, module)
        raise ExpressionError(f"numpy.{name} takes arrays, not what te computes; {advice}")
    if any(type(one).__module__ == "numpy" for one in plain):
        if name in ("equal", "not_equal"):  # lists of both are searched
            return name == "not_equal"
        raise ExpressionError(
            f"numpy.{name}: an array is no operand of a tensor expression; make it a "
            "te.placeholder, whose values are passed when the function is called"
        )
    return _OPERATORS[name](*plain)


def _number(value: Any) -> Any:
    """Return a number of numpy as Python's, and all else as it is."""
    is_number = type(value).__module__ == "numpy" and value.ndim == 0
    return value.item() if is_number else value


def no_float(one: object) -> float:
    """Refuse ``float(x)``, and functions of `math`, which call it."""
    raise ExpressionError(
        f"{one} has no value while the program is being built; use te.exp and others in place of "
        "those of math, and astype('float32') in place of float()"
    )


def no_int(one: object) -> int:
    """Refuse ``int(x)``."""
    raise ExpressionError(
        f"{one} has no value while the program is being built; use astype('int32') in place of "
        "int()"
    )


def no_round(one: object, digits: int = 0) -> NoReturn:
    """Refuse ``round(x)``."""
    raise ExpressionError(
        f"round({one}): use te.nearbyint, which rounds as round does, or te.round"
    )


def no_abs(one: object) -> NoReturn:
    """Refuse ``abs(x)``."""
    raise ExpressionError(f"abs({one}): use te.abs")


def no_power(one: object, other: object, modulus: object = None) -> NoReturn:
    """Refuse ``x ** y``, which does not say whether integers stay integers."""
    raise ExpressionError(f"({one}) ** ({other}): use te.power, or a product such as x * x")
