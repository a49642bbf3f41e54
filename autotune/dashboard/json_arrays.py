"""Arrays as the page gets them: plain JSON, where what is not known is null."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping
from typing import Any

# More digits than any picture shows, and a table needs.
_DIGITS = 7


def to_text(data: object) -> str:
    """Return data as JSON; a number that JSON has no name for, such as NaN, as its text."""
    try:
        return json.dumps(data, allow_nan=False, separators=(",", ":"))
    except ValueError:
        return json.dumps(_named(data), allow_nan=False, separators=(",", ":"))


def _named(data: object) -> object:
    if isinstance(data, Mapping):
        return {key: _named(value) for key, value in data.items()}
    if isinstance(data, (list, tuple)):
        return [_named(value) for value in data]
    return str(data) if isinstance(data, float) and not math.isfinite(data) else data


def reals(values: Iterable[float], digits: int = _DIGITS) -> list[float | None]:
    """Return numbers with few digits; None for what JSON has no name for."""
    return [real(one, digits) for one in values]


def real(value: float | None, digits: int = _DIGITS) -> float | None:
    """Return a number with few digits; None for what JSON has no name for."""
    if value is None or not math.isfinite(value):
        return None
    return float(f"{value:.{digits}g}")


def wholes(values: Iterable[Any]) -> list[int | None]:
    """Return whole numbers; None for what is none."""
    return [int(one) if math.isfinite(one) else None for one in values]
