"""Checked reading of plain data from outside: each function returns the type it names, or raises.

JSON may contain anything. These functions say what it must be, in one line each, so that readers
of a form need no checks of their own, and the type checker knows the types.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from typing import TypeGuard

_LARGEST = sys.float_info.max


def is_number(value: object) -> TypeGuard[float]:
    """Return whether a value is a finite number; booleans do not count."""
    if type(value) is not float and type(value) is not int:
        return False
    return -_LARGEST <= value <= _LARGEST


def real(value: object) -> float:
    """Return a number, which may be infinite or NaN.

    Raises:
        TypeError: it is not a number.
    """
    if type(value) is not float and type(value) is not int:
        raise TypeError(f"expected a number, got {value!r:.100}")
    return value


def number(value: object) -> float:
    """Return a finite number.

    Raises:
        ValueError: it is not a finite number.
    """
    if not is_number(value):
        raise ValueError(f"expected a number, got {value!r:.100}")
    return value


def share(value: object) -> float:
    """Return a number of at least 0.

    Raises:
        ValueError: it is not such a number.
    """
    if not is_number(value) or value < 0:
        raise ValueError(f"expected a number from 0 on, got {value!r:.100}")
    return value


def count(value: object) -> int:
    """Return a whole number of at least 0.

    Raises:
        ValueError: it is not such a number.
    """
    if type(value) is not int or value < 0:
        raise ValueError(f"expected a whole number from 0 on, got {value!r:.100}")
    return value


def text(value: object) -> str:
    """Return a text.

    Raises:
        TypeError: it is not a text.
    """
    if not isinstance(value, str):
        raise TypeError(f"expected a text, got {value!r:.100}")
    return value


def flag(value: object) -> bool:
    """Return true or false.

    Raises:
        TypeError: it is neither.
    """
    if not isinstance(value, bool):
        raise TypeError(f"expected true or false, got {value!r:.100}")
    return value


def listed(value: object) -> list[object]:
    """Return a list.

    Raises:
        TypeError: it is not a list.
    """
    if not isinstance(value, list):
        raise TypeError(f"expected a list, got {value!r:.100}")
    return value


def row(value: object) -> list[object] | tuple[object, ...]:
    """Return a list, or a tuple in place of one.

    Raises:
        TypeError: it is neither.
    """
    if not isinstance(value, (list, tuple)):
        raise TypeError(f"expected a list, got {value!r:.100}")
    return value


def mapping(value: object) -> Mapping[str, object]:
    """Return a JSON object.

    Raises:
        TypeError: it is not a JSON object.
    """
    if not isinstance(value, dict):
        raise TypeError(f"expected an object, got {value!r:.100}")
    return value
