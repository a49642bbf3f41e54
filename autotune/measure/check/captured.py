"""The values that a reference function captures, in its closure and its defaults."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import fields, is_dataclass
from enum import Enum
from functools import partial
from types import BuiltinFunctionType, CodeType, FunctionType, MethodType, SimpleNamespace

import numpy as np

from autotune.task.kinds import Entity
from autotune.task.knobs import Knobs

_PLAIN = (
    int, float, complex, str, bytes, type(None), range, slice, Enum,
    np.generic, np.dtype, np.ufunc,
)  # fmt: skip
# Knobs are short lists and small arrays. What is longer is data, and takes long to read.
_MOST_ITEMS = 1024
_MOST_BYTES = 1 << 20


def captured(function: object) -> tuple[str, ...]:
    """Return the values in the closure and the defaults of a function, as texts.

    If a template defines its reference anew for each candidate, the reference may capture values
    of knobs, or the whole configuration. Functions, of which a knob may choose one, count by their
    code, and with their own closures; so do classes, functions of numpy, values in lists, sets,
    dicts and dataclasses, and those of arrays. Of lists of more than
    `_MOST_ITEMS` items only the length counts, of arrays of more than `_MOST_BYTES` only shape and
    dtype, and other objects are taken to be the same for all candidates.
    """
    found: list[str] = []
    _collect(function, found, set())
    return tuple(found)


def _collect(value: object, found: list[str], seen: set[int]) -> None:
    if (text := _text_of(value)) is not None:
        found.append(text)
        return
    if id(value) in seen:
        return
    seen.add(id(value))
    for each in _parts(value):
        _collect(each, found, seen)


def _text_of(value: object) -> str | None:
    """Return what tells a value from others; None of what has parts, and of other objects."""
    match value:
        case np.ndarray():
            digest = ""
            if value.nbytes <= _MOST_BYTES and not value.dtype.hasobject:
                digest = hashlib.sha256(np.ascontiguousarray(value).tobytes()).hexdigest()
            return f"{value.dtype} {value.shape} {digest}"
        case Knobs():
            return repr(value)
        case Entity():
            return f"{value.tag} {value.to_json()!r}"
        case list() | set() | frozenset() if len(value) > _MOST_ITEMS:
            return f"{len(value)} items"
        case type() | BuiltinFunctionType():
            return f"{value.__module__}.{value.__qualname__}"
        case CodeType():
            return f"code {hash(value)}"  # of equal text, even where it is compiled anew
    return repr(value) if isinstance(value, _PLAIN) else None


def _parts(value: object) -> Sequence[object]:
    match value:
        case FunctionType():
            named = value.__kwdefaults__ or {}
            given = value.__defaults__ or ()
            return [value.__code__, *_contents(value), *given, *named.values()]
        case MethodType():
            return [value.__func__, value.__self__]
        case partial():
            return [value.func, *value.args, *value.keywords.values()]
        case Mapping():
            return [len(value), *value.keys(), *value.values()]
        case tuple() | list():
            return [len(value), *value]
        case set() | frozenset():
            return [len(value), *sorted(value, key=repr)]
        case SimpleNamespace():
            return list(vars(value).values())
    if is_dataclass(value) and not isinstance(value, type):
        return [getattr(value, each.name, None) for each in fields(value)]
    return ()


def _contents(function: FunctionType) -> list[object]:
    found = []
    for cell in function.__closure__ or ():
        try:
            found.append(cell.cell_contents)
        except ValueError:  # not assigned yet
            found.append(None)
    return found
