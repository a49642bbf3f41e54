"""Intervals of integers: what is known of a value when its variables run over their ranges.

An interval is a pair ``(low, high)``, both ends included; an end that is not known is an infinite
float. Pairs, not objects: bounds are computed for every index of every candidate of a tuning run.
"""

from __future__ import annotations

from math import inf, isinf

Bound = int | float
Interval = tuple[Bound, Bound]

EVERYTHING: Interval = (-inf, inf)


def point(value: int) -> Interval:
    """Return the interval of one value."""
    return value, value


def contains_only(interval: Interval) -> int | None:
    """Return the one value of the interval, or None if it holds several."""
    low, high = interval
    return int(low) if low == high and not isinf(low) else None


def add(a: Interval, b: Interval) -> Interval:
    """Return where ``x + y`` lies."""
    return a[0] + b[0], a[1] + b[1]


def negate(a: Interval) -> Interval:
    """Return where ``-x`` lies."""
    return -a[1], -a[0]


def scale(a: Interval, factor: int) -> Interval:
    """Return where ``factor * x`` lies."""
    if factor == 0:
        return 0, 0
    low, high = a[0] * factor, a[1] * factor
    return (low, high) if factor > 0 else (high, low)


def multiply(a: Interval, b: Interval) -> Interval:
    """Return where ``x * y`` lies."""
    corners = [0 if 0 in (x, y) else x * y for x in a for y in b]
    return min(corners), max(corners)


def floordiv(a: Interval, divisor: int) -> Interval:
    """Return where ``x // divisor`` lies, for a positive divisor."""
    return _floor_end(a[0], divisor), _floor_end(a[1], divisor)


def _floor_end(end: Bound, divisor: int) -> Bound:
    return end if isinf(end) else int(end) // divisor


def floormod(a: Interval, divisor: int) -> Interval:
    """Return where ``x % divisor`` lies, for a positive divisor."""
    low, high = a
    if not isinf(low) and not isinf(high) and low // divisor == high // divisor:
        return low % divisor, high % divisor
    return 0, divisor - 1


def union(a: Interval, b: Interval) -> Interval:
    """Return the smallest interval that holds both."""
    return min(a[0], b[0]), max(a[1], b[1])


def intersect(a: Interval, b: Interval) -> Interval:
    """Return what both hold; it is empty when low exceeds high."""
    return max(a[0], b[0]), min(a[1], b[1])
