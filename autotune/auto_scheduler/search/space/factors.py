"""All ways to write an extent as lengths of loops that divide it."""

from __future__ import annotations

from functools import cache

import numpy as np
import numpy.typing as npt

from autotune.utils.math import divisors

Rows = npt.NDArray[np.int64]


@cache
def factorings(extent: int, parts: int, innermost: int) -> Rows:
    """Return every choice of ``parts`` lengths whose product divides ``extent``, one a row.

    The last length, the innermost loop's, is at most ``innermost``. Rows are sorted.
    """
    rows = np.ones((1, 0), np.int64)
    for _ in range(parts):
        left = extent // rows.prod(axis=1, dtype=np.int64)
        longer = [
            np.column_stack([np.repeat(rows[i : i + 1], len(found), axis=0), found])
            for i, rest in enumerate(left)
            if (found := np.array(divisors(int(rest)), np.int64)) is not None
        ]
        rows = np.concatenate(longer)
    rows = rows[rows[:, -1] <= innermost] if parts else rows
    rows.setflags(write=False)
    return rows


@cache
def primes(number: int) -> tuple[int, ...]:
    """Return the prime factors of a number, ascending, each as often as it divides."""
    found, rest, factor = [], number, 2
    while factor * factor <= rest:
        while rest % factor == 0:
            found.append(factor)
            rest //= factor
        factor += 1
    return (*found, rest) if rest > 1 else tuple(found)
