"""The values that a reference function captures, in its closure and its defaults."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from types import FunctionType

import numpy as np

_PLAIN = (int, float, complex, str, bytes, type(None), np.generic)


def captured(function: object) -> tuple[str, ...]:
    """Return the plain values in the closure and the defaults of a function, as texts.

    If a template defines its reference anew for each candidate, the reference may capture values
    of knobs. Functions in a closure count with their own closures, and so do numbers and texts in
    tuples and dicts; other objects, such as lists that a function fills, are taken to be the same
    for all candidates.
    """
    found: list[str] = []
    _collect(function, found, set())
    return tuple(found)


def _collect(value: object, found: list[str], seen: set[int]) -> None:
    if isinstance(value, _PLAIN):
        found.append(repr(value))
        return
    if id(value) in seen:
        return
    seen.add(id(value))
    for each in _parts(value):
        _collect(each, found, seen)


def _parts(value: object) -> Sequence[object]:
    match value:
        case FunctionType():
            named = value.__kwdefaults__ or {}
            return [*_contents(value), *(value.__defaults__ or ()), *named.values()]
        case partial():
            return [value.func, *value.args, *value.keywords.values()]
        case Mapping():
            return [*value.keys(), *value.values()]
        case tuple():
            return value
    return ()


def _contents(function: FunctionType) -> list[object]:
    found = []
    for cell in function.__closure__ or ():
        try:
            found.append(cell.cell_contents)
        except ValueError:  # not assigned yet
            found.append(None)
    return found
