"""Axes as knobs see them: only a length matters."""

from __future__ import annotations

import itertools
from typing import NamedTuple

import numpy as np

from autotune.errors import SpaceError
from autotune.utils.check import shown

_serial = itertools.count()


class Axis(NamedTuple):
    """One output axis of a knob: the space that made it (None when replaying) and its position."""

    space: object
    index: int  # type: ignore[assignment]  # AutoTVM's field name; hides tuple.index


class VirtualAxis:
    """An axis that represents a loop while knobs are defined.

    Args:
        var: a length, another virtual axis, or an iteration variable with a constant extent.
        name: shown in messages; a number by default.
    """

    __slots__ = ("length", "name")

    def __init__(self, var: object, name: str | None = None) -> None:
        self.length = axis_length(var)
        self.name = name if name is not None else f"axis_{next(_serial)}"

    def __repr__(self) -> str:
        return f"VirtualAxis({self.name}, length={self.length})"


def constant(value: object) -> int | None:
    """Return a constant expression or number as an int; None when it is not constant."""
    value = getattr(value, "value", value)
    return int(value) if isinstance(value, (int, np.integer)) else None


def axis_length(var: object) -> int:
    """Return the length of an axis, given in any form; -1 if it has no domain yet.

    Raises:
        SpaceError: ``var`` is not an axis, or its extent is not constant.
    """
    if isinstance(var, VirtualAxis):
        return var.length
    if isinstance(var, (int, np.integer)):
        return int(var)
    if not hasattr(var, "dom") and not hasattr(var, "extent"):
        raise SpaceError(
            f"Invalid type of axis: {type(var)}; expected a length, a VirtualAxis or an "
            f"iteration variable, got {shown(var)}"
        )
    domain = getattr(var, "dom", var)
    if domain is None:
        return -1
    extent = getattr(domain, "extent", domain)
    length = constant(extent)
    if length is None:
        raise SpaceError(
            f"axis {var}: the extent {extent} is not constant; pass the length as an int"
        )
    return length
