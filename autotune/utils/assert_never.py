"""`assert_never`: the end of a `match` with a case for every kind."""

from __future__ import annotations

from typing import NoReturn


def assert_never(value: NoReturn) -> NoReturn:
    """Ends a closed `match`: the type checker complains here about a kind that has no case.

    It is `typing.assert_never`, which Python 3.10 does not have.
    """
    raise AssertionError(f"no case for {type(value).__name__}: {value!r}")
