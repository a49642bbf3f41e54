"""The check of a builder's and a runner's arguments, in one wording."""

from __future__ import annotations

from autotune.errors import MeasureError
from autotune.utils.check import Check


def check_number(owner: str, name: str, value: object, least: float, *, whole: bool) -> None:
    """Refuse what is not a number of at least ``least``.

    Raises:
        MeasureError: it names the owner, the argument, what was expected and what came.
    """
    check = Check(MeasureError, owner)
    (check.whole if whole else check.number)(name, value, least)


def check_timeout(owner: str, value: object) -> None:
    """Refuse what is not a positive number of seconds; infinity is one.

    Raises:
        MeasureError: it names the owner and what came.
    """
    if not (isinstance(value, float) and value == float("inf")):
        Check(MeasureError, owner).seconds("timeout", value)
