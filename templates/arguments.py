"""The decorator of the library's templates: annotations of parameters check arguments."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Sequence
from types import UnionType
from typing import Any, TypeVar, cast, get_args, get_origin, get_type_hints

import autotune
from autotune.errors import TemplateError
from autotune.utils.check import Check, is_whole

F = TypeVar("F", bound=Callable[..., object])


def template(name: str) -> Callable[[F], F]:
    """Register a function as `autotune.template` does; its annotations are types of arguments.

    So a flag that is a text, or an extent that is a fraction, is an error that names it, however
    little use is made of it. Which numbers there may be is for shapes to say.

    Raises:
        TemplateError: when it is run, an argument is not of its parameter's type.
    """

    def decorate(function: F) -> F:
        return autotune.template(name, _checked(name, function))

    return decorate


def _checked(name: str, function: F) -> F:
    check, hints = Check(TemplateError, name), get_type_hints(function)
    names = [*inspect.signature(function).parameters]

    @functools.wraps(function)
    def run(*args: object, **named: object) -> object:
        placed = zip(names, args, strict=False)
        taken = [_taken(check, each, value, hints[each]) for each, value in placed]
        for each in hints.keys() & named.keys():
            named[each] = _taken(check, each, named[each], hints[each])
        return function(*taken, *args[len(taken) :], **named)  # which refuses what is too many

    return cast(F, run)


def _taken(check: Check, name: str, value: object, kind: Any) -> object:
    """Return an argument as a parameter of some type takes it, or raise."""
    if kind is bool:
        return check.flag(name, value)
    if kind is int:
        return check.whole(name, value)
    if kind is float:
        return check.number(name, value)
    if kind is str:
        check.kind(name, value, str, "a text")
        return value
    if get_origin(kind) is UnionType:  # a number, or one for each axis
        if is_whole(value):
            return int(value)
        if not isinstance(value, Sequence) or isinstance(value, str):
            check.refuse(name, "a whole number, or a list of them", value)
        kind = get_args(kind)[1]
    parts = get_args(kind)
    values = check.sequence(name, value, "a list")
    if get_origin(kind) is tuple:
        if len(values) != len(parts):
            check.refuse(name, f"a tuple of {len(parts)}", value)
    else:
        parts = parts * len(values)
    each = enumerate(zip(values, parts, strict=True))
    return tuple([_taken(check, f"{name}[{i}]", v, part) for i, (v, part) in each])
