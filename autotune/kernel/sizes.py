"""Sizes: numbers that extents depend on, and that are known only when a function is called."""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

# An extent: a number, the name of a size, or an operator and its operands.
Size = int | str | tuple[str, "Size", "Size"]
Value = TypeVar("Value")

# Quotients and remainders are of numbers that are not negative.
OPERATORS: dict[str, Callable[[object, object], Any]] = {
    "+": operator.add,
    "-": operator.sub,
    "*": operator.mul,
    "/": operator.floordiv,
    "%": operator.mod,
    "min": min,
    "max": max,
}


def evaluate(size: Size, values: Mapping[str, Value]) -> int | Value:
    """Return the value of an extent: an int, or a symbol if the given values are symbols."""
    if isinstance(size, int):
        return size
    if isinstance(size, str):
        return values[size]
    sign, a, b = size
    value: int | Value = OPERATORS[sign](evaluate(a, values), evaluate(b, values))
    return value


@dataclass(frozen=True)
class Sizes:
    """The extents of a kernel that depend on sizes.

    A kernel with sizes holds numbers in their place that mean nothing; `Kernel.at` puts in what
    they are.

    Attributes:
        names: of all sizes; scalar arguments of the kernel are called so.
        hidden: of those that no caller passes: they follow from the shapes of arrays, and are
            the last arguments of the kernel.
        args: the shape of each argument.
        workspace: the shape of each workspace.
        grids: the blocks of each call.
    """

    names: tuple[str, ...]
    hidden: tuple[str, ...]
    args: tuple[tuple[Size, ...], ...]
    workspace: tuple[tuple[Size, ...], ...]
    grids: tuple[tuple[Size, Size, Size], ...]
