"""Layouts: letters that name the axes of images (N C and D H W) and of filters (O I and D H W)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TypeVar

import numpy as np

from autotune.errors import GraphError
from autotune.graph.operator import Operator
from autotune.graph.types import Array

T = TypeVar("T")
# Axes that a window moves along, by their number.
SPATIAL = {1: "W", 2: "HW", 3: "DHW"}
DATA = {1: ("NCW", "NWC"), 2: ("NCHW", "NHWC"), 3: ("NCDHW", "NDHWC")}


def by_letter(layout: str, values: Sequence[T]) -> dict[str, T]:
    """Return what belongs to each axis, under its letter."""
    return dict(zip(layout, values, strict=True))


def arrange(layout: str, values: Mapping[str, T]) -> tuple[T, ...]:
    """Return the values of the letters in the order of a layout."""
    return tuple([values[letter] for letter in layout])


def change_layout(array: Array, layout: str, wanted: str) -> Array:
    """Permute the axes of an array from one layout to another."""
    return np.transpose(array, [layout.index(letter) for letter in wanted])


def check_layout(op: Operator, argument: str, layout: str, allowed: Sequence[str]) -> None:
    """Refuse a layout that the operator has not."""
    if layout not in allowed:
        raise GraphError(
            f"{op.name}: {argument} must be one of {', '.join(allowed)}, got {layout!r}"
        )


def sides(op: Operator, padding: Sequence[int], dims: int) -> tuple[tuple[int, int], ...]:
    """Return the padding before and after each axis: one number, one an axis, or all."""
    given = tuple(padding)
    if len(given) == 1:
        given *= dims
    if len(given) == dims:
        given *= 2
    if len(given) != 2 * dims or any(not isinstance(n, int) or n < 0 for n in given):
        op.refuse("padding", f"1, {dims} or {2 * dims} whole numbers of at least 0", padding)
    return tuple(zip(given[:dims], given[dims:], strict=True))


def each(op: Operator, name: str, values: Sequence[int], dims: int) -> tuple[int, ...]:
    """Return a number of at least 1 for each axis; a single number applies to all."""
    given = tuple(values) * (dims if len(values) == 1 else 1)
    if len(given) != dims or any(not isinstance(n, int) or n < 1 for n in given):
        op.refuse(name, f"1 or {dims} whole numbers of at least 1", values)
    return given
