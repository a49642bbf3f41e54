"""Attributes of operators as calls give them: of the types that the operator's fields say."""

from __future__ import annotations

import types
from collections.abc import Mapping, Sequence
from dataclasses import fields
from typing import Any, Union, get_args, get_origin, get_type_hints

import numpy as np

from autotune.errors import AutotuneError, TunerError
from autotune.graph import Operator
from autotune.utils.check import Check
from autotune.utils.names import did_you_mean

# What the elements of a tuple are called.
_MANY = {int: "whole numbers", float: "numbers", str: "texts"}


def operator_of(owner: str, kind: type[Operator], given: object) -> Operator:
    """Return an operator with the attributes that are given, and defaults for the rest.

    Raises:
        TunerError: there is no such attribute, or one is of another type or no good.
    """
    check = Check(TunerError, owner)
    attributes: Mapping[str, object] = {} if given is None else given  # type: ignore[assignment]
    check.kind("key(...)", attributes, Mapping, f"a dict of attributes of {kind.name}")
    hints = get_type_hints(kind)
    known = [each.name for each in fields(kind)]
    axis = next((name for name in known if _is_axis(name)), "axis")
    if axis not in attributes:
        attributes = {axis if name == "axis" else name: v for name, v in attributes.items()}
    unknown = [name for name in attributes if name not in known]
    if unknown:
        public = ["axis" if name == axis and name != "axes" else name for name in known]
        expected = f"expected some of {', '.join(public)}" if known else "it has none at all"
        meant = did_you_mean(unknown[0], public)
        raise TunerError(
            f"{owner}: {kind.name} has no attribute {unknown[0]!r}; {expected}{meant}"
        )
    found = {}
    for name, value in attributes.items():
        found[name] = _plain(value, hints[name])
        if not _is(found[name], hints[name]):
            said = name if name in given else "axis"  # type: ignore[operator]
            check.refuse(f"attribute {said!r} of {kind.name}", _in_words(hints[name]), value)
    try:
        return kind(**found)
    except AutotuneError as error:
        raise TunerError(f"{owner}: attributes of {kind.name}: {error}") from error


def _is_axis(name: str) -> bool:
    """Return whether an attribute is what relay calls ``axis``; no operator has two of these."""
    return name in ("axes", "along") or name.startswith("axis_of_")


def _plain(value: object, hint: object) -> object:
    """Return an attribute in the operator's form: a number in place of a tuple of one."""
    value = _plain_part(value)
    if isinstance(value, int) and not isinstance(value, bool) and not _is(value, hint):
        return (value,)
    return value


def _plain_part(value: Any) -> object:
    """Return a value without lists, and without numbers of numpy."""
    if isinstance(value, np.generic):
        return value.item()
    nested = isinstance(value, Sequence) and not isinstance(value, str)
    return tuple(map(_plain_part, value)) if nested else value


def _is(value: object, hint: Any) -> bool:
    """Return whether a value is of a type, as fields of operators are annotated."""
    if get_origin(hint) in (Union, types.UnionType):
        return any(_is(value, each) for each in get_args(hint))
    if get_origin(hint) is tuple:
        part, *rest = get_args(hint)
        if rest == [...]:
            return isinstance(value, tuple) and all(_is(each, part) for each in value)
        return (
            isinstance(value, tuple)
            and len(value) == 1 + len(rest)
            and all(map(_is, value, (part, *rest)))
        )
    if isinstance(value, bool) or hint is bool:
        return isinstance(value, bool) and hint is bool
    return isinstance(value, (int, float) if hint is float else hint)


def _in_words(hint: Any) -> str:
    if get_origin(hint) in (Union, types.UnionType):
        return " or ".join(_in_words(each) for each in get_args(hint))
    if get_origin(hint) is tuple:
        part, *rest = get_args(hint)
        if rest == [...]:
            return f"a tuple of {_MANY.get(part) or _in_words(part)}"
        return f"({', '.join(map(_in_words, get_args(hint)))})"
    names = {int: "a whole number", float: "a number", bool: "True or False", str: "a text"}
    return "None" if hint is type(None) else names.get(hint, str(hint))
