"""Checks of arguments, with uniform messages: function, argument, expectation, value.

Example::

    check = Check(MeasureError, "LocalRunner")
    check.whole("number", number, least=1)
    # MeasureError: LocalRunner: number must be a whole number of at least 1, got 'four'
"""

from __future__ import annotations

import math
import numbers
import os
import reprlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, NoReturn, TypeGuard

from autotune.errors import AutotuneError
from autotune.utils.names import did_you_mean

_REPR = reprlib.Repr()
_REPR.maxstring = _REPR.maxother = 120
_REPR.maxlist = _REPR.maxtuple = _REPR.maxdict = 8
# Characters of any value in a message: nested lists have many elements at each level.
_MOST = 400


def shown(value: object) -> str:
    """Return the text of any value for a message: short, and on one line."""
    try:
        text = _REPR.repr(value)
    except Exception:
        text = f"a {type(value).__name__}"
    text = " ".join(text.split())
    return text if len(text) <= _MOST else f"{text[:_MOST]}..."


@dataclass(frozen=True)
class Check:
    """The checks of one function's arguments.

    Attributes:
        error: what is raised.
        owner: the function, as a user writes it; empty where a caller adds it.
    """

    error: type[AutotuneError]
    owner: str = ""

    def refuse(self, name: str, expected: str, value: object, hint: str = "") -> NoReturn:
        """Raise the error for an argument."""
        owner = f"{self.owner}: " if self.owner else ""
        raise self.error(f"{owner}{name} must be {expected}, got {shown(value)}{hint}")

    def whole(
        self, name: str, value: object, least: float = -math.inf, most: float = math.inf
    ) -> int:
        """Return a whole number within bounds, of Python or numpy; booleans do not count."""
        if not is_whole(value, least, most):
            self.refuse(name, "a whole number" + _bounds(least, most), value)
        return int(value)

    def number(
        self, name: str, value: object, least: float = -math.inf, most: float = math.inf
    ) -> float:
        """Return a finite number within bounds."""
        if not _is_finite(value) or not least <= value <= most:
            self.refuse(name, "a number" + _bounds(least, most), value)
        return float(value)

    def seconds(self, name: str, value: object, *, endless: bool = False) -> float:
        """Return a number of seconds above 0, finite unless it may be ``endless``."""
        if endless and isinstance(value, float) and value == math.inf:
            return value
        if not _is_finite(value) or value <= 0:
            self.refuse(name, "positive seconds", value)
        return float(value)

    def text(self, name: str, value: object, such_as: str = "") -> str:
        """Return a text that is not empty."""
        if not isinstance(value, str) or not value:
            self.refuse(name, "a text" + (f" such as {such_as!r}" if such_as else ""), value)
        return str(value)

    def one_of(self, name: str, value: object, choices: Iterable[str]) -> str:
        """Return one of several texts."""
        known = list(choices)
        if not isinstance(value, str) or value not in known:
            meant = did_you_mean(value, known) if isinstance(value, str) else ""
            self.refuse(name, f"one of {', '.join(map(repr, known))}", value, meant)
        return str(value)

    def kind(
        self, name: str, value: object, kinds: type | tuple[type, ...], expected: str
    ) -> None:
        """Refuse what is not of a class."""
        if not isinstance(value, kinds):
            self.refuse(name, expected, value)

    def function(self, name: str, value: object, of: str = "") -> None:
        """Refuse what cannot be called."""
        if not callable(value):
            self.refuse(name, "a function" + (f" of {of}" if of else ""), value)

    def flag(self, name: str, value: object) -> bool:
        """Return True or False; 1 and 0 are taken for them, as in older scripts."""
        if not isinstance(value, (bool, int)) and type(value).__name__ not in ("bool_", "bool"):
            self.refuse(name, "True or False", value)
        if value not in (0, 1):
            self.refuse(name, "True or False", value)
        return bool(value)

    def path(self, name: str, value: object) -> str:
        """Return a path as text: a text that is not empty, or any `os.PathLike`."""
        text = os.fsdecode(value) if isinstance(value, (str, os.PathLike)) else ""
        if not text or "\0" in text:
            self.refuse(name, "a path", value)
        return text

    def sequence(self, name: str, value: object, expected: str) -> Sequence[Any]:
        """Return a list or tuple; a text, a mapping or a set has no order of arguments."""
        if isinstance(value, (list, tuple)):
            return value
        if not isinstance(value, Sequence) or isinstance(value, (str, bytes)):
            self.refuse(name, expected, value)
        return value


def is_whole(value: object, least: float = -math.inf, most: float = math.inf) -> TypeGuard[int]:
    """Return whether a value is a whole number within bounds; booleans do not count."""
    if type(value) is int:
        return least <= value <= most
    if isinstance(value, bool) or not isinstance(value, numbers.Integral):
        return False
    return least <= int(value) <= most


def _is_finite(value: object) -> TypeGuard[float]:
    """Return whether a value is a finite number; booleans do not count."""
    try:
        if type(value) is int or type(value) is float:
            return math.isfinite(value)
        if isinstance(value, bool) or not isinstance(value, numbers.Real):
            return False
        return math.isfinite(float(value))
    except OverflowError:  # a whole number of hundreds of digits
        return False


def _bounds(least: float, most: float) -> str:
    if math.isinf(least):
        return "" if math.isinf(most) else f" of at most {most:g}"
    return f" of at least {least:g}" if math.isinf(most) else f" from {least:g} to {most:g}"
