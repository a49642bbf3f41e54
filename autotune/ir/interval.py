"""Intervals of integers: what is known of a value when its variables run over their ranges.

An interval is a pair ``(low, high)``, both ends included; an end that is not known is an infinite
float. Pairs, not objects: bounds are computed for every index of every candidate of a tuning run.
"""

from __future__ import annotations

from math import inf, isinf

Bound = int | float
Interval = tuple[Bound, Bound]

EVERYTHING: Interval = (-inf, inf)


def floordiv(a: Interval, divisor: int) -> Interval:
    """Return the interval of ``x // divisor``, for a positive divisor."""
    return _floor_end(a[0], divisor), _floor_end(a[1], divisor)


def _floor_end(end: Bound, divisor: int) -> Bound:
    return end if isinf(end) else int(end) // divisor


def union(a: Interval, b: Interval) -> Interval:
    """Return the smallest interval that holds both."""
    return min(a[0], b[0]), max(a[1], b[1])


def intersect(a: Interval, b: Interval) -> Interval:
    """Return the intersection; it is empty if low exceeds high."""
    return max(a[0], b[0]), min(a[1], b[1])
