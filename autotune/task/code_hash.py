"""Marks a space or schedule with the source of the template that made it."""

from __future__ import annotations

import functools
import inspect
import zlib
from collections.abc import Callable
from typing import TypeVar

F = TypeVar("F", bound=Callable[..., object])


def attach_code_hash(s: object) -> Callable[[F], F]:
    """Decorate a function that fills in a schedule: ``s.code_hash`` becomes its source's hash."""
    return lambda function: _hashing(function, lambda args: s)


def attach_code_hash_to_arg(arg_idx: int = 1) -> Callable[[F], F]:
    """Decorate a function that fills in its argument ``arg_idx``, as `attach_code_hash`."""
    return lambda function: _hashing(function, lambda args: args[arg_idx])


def _hashing(function: F, schedule_of: Callable[[tuple[object, ...]], object]) -> F:
    digest = hex(zlib.crc32("".join(inspect.getsourcelines(function)[0]).encode()))[2:]

    @functools.wraps(function)
    def wrapper(*args: object, **kwargs: object) -> object:
        result = function(*args, **kwargs)
        setattr(schedule_of(args), "code_hash", digest)  # noqa: B010 - of whatever was named
        return result

    return wrapper  # type: ignore[return-value]
