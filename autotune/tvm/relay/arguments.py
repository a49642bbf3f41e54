"""Arguments of relay's operators, as TVM takes them."""

from __future__ import annotations

from collections.abc import Sequence
from numbers import Integral

import numpy as np

from autotune.errors import GraphError
from autotune.graph import Value
from autotune.utils.check import Check, is_whole

# One whole number, or one for each of several axes.
Numbers = int | Sequence[int]


def whole_numbers(op: str, name: str, given: object) -> tuple[int, ...]:
    """Return one whole number or a list of them as a tuple.

    Raises:
        GraphError: it is something else.
    """
    found = list(given) if isinstance(given, Sequence | np.ndarray) else [given]
    # TVM's shapes may hold its own constants.
    plain = [getattr(each, "value", each) for each in found]
    if isinstance(given, str | bytes) or not all(map(is_whole, plain)):
        Check(GraphError, op).refuse(name, "a whole number, or a list of them", given)
    return tuple([int(each) for each in plain if isinstance(each, Integral)])


def check_values(op: str, **given: object) -> None:
    """Refuse what is no tensor of a network."""
    for name, value in given.items():
        Check(GraphError, op).kind(name, value, Value, "an expression of relay")


def windows(
    op: str, strides: Numbers, padding: Numbers, dilation: Numbers
) -> list[tuple[int, ...]]:
    """Return how windows move, each as a tuple."""
    given = {"strides": strides, "padding": padding, "dilation": dilation}
    return [whole_numbers(op, name, numbers) for name, numbers in given.items()]


def each_axis(op: str, name: str, given: Numbers, dims: int, least: int = 1) -> tuple[int, ...]:
    """Return a number for each axis; a single one is for all.

    Raises:
        GraphError: there are more or fewer numbers, or too small ones.
    """
    found = whole_numbers(op, name, given)
    found = found * dims if len(found) == 1 else found
    if len(found) != dims or min(found) < least:
        counts = "a whole number" if dims == 1 else f"1 or {dims} whole numbers"
        Check(GraphError, op).refuse(name, f"{counts} of at least {least}", given)
    return found


def sides_of(op: str, padding: Numbers, dims: int) -> tuple[int, ...]:
    """Return the padding before all axes, and then after all: of one number, one an axis, or all.

    Raises:
        GraphError: there are other numbers.
    """
    found = whole_numbers(op, "padding", padding)
    found = found * dims if len(found) == 1 else found
    found = found * 2 if len(found) == dims else found
    if len(found) != 2 * dims or min(found) < 0:
        counts = "1 or 2" if dims == 1 else f"1, {dims} or {2 * dims}"
        expected = f"{counts} whole numbers of at least 0"
        Check(GraphError, op).refuse("padding", expected, padding)
    return found
