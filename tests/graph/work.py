"""The work of a call, as the number of lines of Python that it executes."""

from __future__ import annotations

import sys
from collections.abc import Callable
from types import FrameType
from typing import Any


def lines_executed(call: Callable[[], object]) -> int:
    """Return how many lines a call executes: the same on every machine, however busy."""
    count = 0

    def trace(frame: FrameType, event: str, arg: Any) -> Any:
        nonlocal count
        count += event == "line"
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        call()
    finally:
        sys.settrace(before)
    return count


def growth(call: Callable[[int], Callable[[], object]], size: int) -> float:
    """Return how much more work four times the size is: 4 if it is linear, 16 if quadratic.

    ``call`` prepares a call of a size; only what that returns is counted.
    """
    small, large = (lines_executed(call(each)) for each in (size, 4 * size))
    return large / small
