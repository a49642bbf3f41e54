"""Integer arithmetic used by spaces, schedules and launches."""

from __future__ import annotations

from math import isqrt


def ceil_div(numerator: int, denominator: int) -> int:
    """Return the smallest integer not below ``numerator / denominator``."""
    return -(-numerator // denominator)


def round_up(n: int, multiple: int) -> int:
    """Return the smallest multiple that is not below ``n``."""
    return ceil_div(n, multiple) * multiple


def divisors(n: int) -> list[int]:
    """Return all positive divisors of ``n`` in ascending order."""
    small = [d for d in range(1, isqrt(n) + 1) if n % d == 0]
    return small + [n // d for d in reversed(small) if d * d != n]


def powers_of_two(n: int) -> list[int]:
    """Return 1, 2, 4, ... up to the largest power of two not above ``n``."""
    return [1 << i for i in range(n.bit_length())]
