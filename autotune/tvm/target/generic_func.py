"""TVM's `target.generic_func`: functions with another body for some targets."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable
from typing import Any

from autotune.errors import TargetError
from autotune.target import Target
from autotune.utils.check import Check

__all__ = ["GenericFunc", "generic_func"]

_CHECK = Check(TargetError, "generic_func")


class GenericFunc:
    """A function that calls what is registered for a key of the current target, or its default."""

    def __init__(self, default: Callable[..., Any]) -> None:
        self._default = default
        self._bodies: dict[str, Callable[..., Any]] = {}
        functools.update_wrapper(self, default)

    def register(
        self,
        key: str | Iterable[str],
        func: Callable[..., Any] | None = None,
        override: bool = True,
    ) -> Callable[..., Any]:
        """Use a function for targets of a key, or of one of several; also as a decorator.

        Args:
            key: such as ``"cuda"``, ``"gpu"``, ``"cpu"``; the first of a target's keys wins.
            func: the function; None to decorate one.
            override: whether one that is registered already is replaced.
        """
        keys = [key] if isinstance(key, str) else list(key)

        def add(body: Callable[..., Any]) -> Callable[..., Any]:
            _CHECK.function("func", body)
            for each in keys:
                if each in self._bodies and not override:
                    raise TargetError(f"generic_func: {each!r} has a function already")
                self._bodies[each] = body
            return body

        return add if func is None else add(func)

    def get_packed_func(self) -> Callable[..., Any]:
        """Return what a call would run now."""
        target = Target.current()
        keys = () if target is None else (target.kind.name, *target.keys)
        return next((self._bodies[each] for each in keys if each in self._bodies), self._default)

    def __call__(self, *args: object, **kwargs: object) -> Any:
        """Call the function for the current target."""
        return self.get_packed_func()(*args, **kwargs)


def generic_func(fdefault: Callable[..., Any]) -> GenericFunc:
    """Make a function generic: decorate it, then ``register`` others for some targets."""
    _CHECK.function("fdefault", fdefault)
    return GenericFunc(fdefault)
