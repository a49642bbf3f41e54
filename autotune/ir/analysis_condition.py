"""Decides or simplifies comparisons of affine forms with zero, by the ranges of variables."""

from __future__ import annotations

from math import gcd
from typing import Literal

from autotune.ir.analysis_affine import ZERO, Affine, constant, scale_affine, shift_affine
from autotune.ir.expr import EQ, GE, LT, NE, CompareOp
from autotune.utils.assert_never import assert_never

Comparison = Literal["<", "<=", ">", ">=", "==", "!="]
Made = tuple[type[CompareOp], Affine, Affine]


def compare_forms(op: Comparison, a: Affine) -> bool | Made:
    """Return whether ``a op 0``: a constant, or a comparison class with its two sides."""
    match op:
        case "<":
            return _negative(a)
        case "<=":
            return _negative(shift_affine(a, -1))
        case ">":
            return _negative(scale_affine(a, -1))
        case ">=":
            return _negative(shift_affine(scale_affine(a, -1), -1))
        case "==":
            return _zero(a, EQ)
        case "!=":
            return _zero(a, NE)
        case _:
            assert_never(op)


def _negative(a: Affine) -> bool | Made:
    """Return whether ``a < 0``."""
    low, high = a.bounds
    if high < 0:
        return True
    if low >= 0:
        return False
    a = _without_small(a)
    low, high = a.bounds
    if high < 0 or low >= 0:
        return bool(high < 0)
    positive, negative = _sides(a)
    if not positive.terms:
        # c - N < 0, written N >= c + 1.
        return GE, negative, constant(a.const + 1)
    if a.const > 0:
        return LT, shift_affine(positive, a.const), negative
    return LT, positive, shift_affine(negative, -a.const)


def _sides(a: Affine) -> tuple[Affine, Affine]:
    """Return the terms with positive coefficients, and the others negated."""
    positive = {atom: k for atom, k in a.terms.items() if k > 0}
    negative = {atom: -k for atom, k in a.terms.items() if k < 0}
    return Affine(positive, 0), Affine(negative, 0)


def _without_small(a: Affine) -> Affine:
    """Drop terms that cannot decide ``a < 0``, and divide the rest by what divides it.

    With ``a = g*L + S - B`` and ``0 <= S < g``: ``a < 0`` is ``L < ceil(B / g)`` if S cannot reach
    the remainder of B, or is always at least that large.
    """
    items = sorted(a.terms.items(), key=lambda item: -abs(item[1]))
    g = 0
    for i, (_, k) in enumerate(items):
        g = gcd(g, k)
        if g == 1:
            return a
        small = Affine(dict(items[i + 1 :]), 0)
        low, high = small.bounds
        if low < 0 or high >= g:
            continue
        quotient, remainder = divmod(-a.const, g)
        if remainder and low < remainder <= high:
            continue
        limit = quotient + (1 if remainder and high < remainder else 0)
        return Affine({atom: k // g for atom, k in items[: i + 1]}, -limit)
    return a


def _zero(a: Affine, cls: type[EQ] | type[NE]) -> bool | Made:
    """Return whether ``a == 0`` (or, for `NE`, whether not)."""
    equal = cls is EQ
    low, high = a.bounds
    if low == high == 0:
        return equal
    if low > 0 or high < 0:
        return not equal
    g = gcd(*a.terms.values())
    if a.const % g:
        return not equal
    if g > 1:
        a = Affine({atom: k // g for atom, k in a.terms.items()}, a.const // g)
    positive, negative = _sides(a)
    if not positive.terms:
        return cls, negative, constant(a.const)
    if not negative.terms:
        return cls, positive, constant(-a.const)
    if a.const > 0:
        return cls, shift_affine(positive, a.const), negative
    return cls, positive, shift_affine(negative, -a.const) if a.const else negative or ZERO
