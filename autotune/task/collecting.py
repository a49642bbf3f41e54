"""Runs a template for the first time, to collect its knobs."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

import numpy as np

from autotune.errors import ScheduleError
from autotune.task.config_space import ConfigSpace

T = TypeVar("T")

# How many points are tried until the schedule of one is possible. A template runs in milliseconds.
_ATTEMPTS = 64


def collected(run: Callable[[ConfigSpace], T]) -> tuple[ConfigSpace, T]:
    """Return the knobs of a template, and what it returned when it defined them.

    It runs with the first value of each knob, as in AutoTVM. The schedule of that point may be
    impossible while those of others are not (an order of loops that puts a reduction outside of
    what is fused, for example); then it runs again with values drawn at random, until one is
    possible. The draws are the same in every process.

    Args:
        run: runs the template once, with the space as its configuration.

    Raises:
        ScheduleError: no schedule is possible; the error is that of the first point.
    """
    space = ConfigSpace()
    try:
        return space, run(space)
    except ScheduleError:
        if space.range_length > 1:
            other = _with_other_values(run)
            if other is not None:
                return other
        raise


def _with_other_values(run: Callable[[ConfigSpace], T]) -> tuple[ConfigSpace, T] | None:
    rng = np.random.default_rng(0)
    for _ in range(_ATTEMPTS):
        space = ConfigSpace()
        try:
            with space.drawing(rng):
                return space, run(space)
        except ScheduleError:
            continue
    return None
