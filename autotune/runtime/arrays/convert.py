"""TVM's ``convert``: Python values to values of autotune."""

from __future__ import annotations

from numbers import Real
from typing import Any

from autotune.ir import Operand, as_expr


def convert(value: object) -> Any:
    """Return numbers as constants, also within lists and dicts, and anything else unchanged.

    Containers and texts, of which TVM has its own types, are Python's here.
    """
    if isinstance(value, Operand) or value is None:
        return value
    if isinstance(value, list | tuple):
        return [convert(each) for each in value]
    if isinstance(value, dict):
        return {key: convert(each) for key, each in value.items()}
    return as_expr(value) if isinstance(value, Real) else value
