"""The check of a builder's and a runner's arguments, in one wording."""

from __future__ import annotations

import numpy as np

from autotune.errors import MeasureError


def check_number(owner: str, name: str, value: object, least: float, *, whole: bool) -> None:
    """Refuse what is not a number of at least ``least``.

    Raises:
        MeasureError: it names the owner, the argument, what was expected and what came.
    """
    right = isinstance(value, (int, np.integer) if whole else (int, float, np.number))
    if not right or not np.greater_equal(value, least):  # type: ignore[call-overload]
        kind = "a whole number" if whole else "a number"
        raise MeasureError(f"{owner}: {name} must be {kind} of at least {least:g}, got {value!r}")


def check_timeout(owner: str, value: object) -> None:
    """Refuse what is not a positive number of seconds.

    Raises:
        MeasureError: it names the owner and what came.
    """
    if not isinstance(value, (int, float, np.number)) or not value > 0:
        raise MeasureError(f"{owner}: timeout must be positive seconds, got {value!r}")
