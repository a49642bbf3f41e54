"""TVM's functions for what expressions have operators for."""

from __future__ import annotations

from autotune.ir import Expr, ExprLike, const
from autotune.ir.base import as_expr

__all__ = [
    "bitwise_and",
    "bitwise_not",
    "bitwise_or",
    "bitwise_xor",
    "fma",
    "infinity",
    "likely",
    "shift_left",
    "shift_right",
]


def fma(x: ExprLike, y: ExprLike, z: ExprLike) -> Expr:
    """Return ``x * y + z``; compilers for GPUs round it once where the types allow it."""
    return as_expr(x) * y + z


def infinity(dtype: str) -> Expr:
    """Return what is greater than any number of a type of floats."""
    return const(float("inf"), dtype)


def likely(cond: Expr) -> Expr:
    """Return the condition: compilers are not told how often it holds."""
    return cond


def bitwise_and(x: ExprLike, y: ExprLike) -> Expr:
    """Return ``x & y``."""
    return as_expr(x) & y


def bitwise_or(x: ExprLike, y: ExprLike) -> Expr:
    """Return ``x | y``."""
    return as_expr(x) | y


def bitwise_xor(x: ExprLike, y: ExprLike) -> Expr:
    """Return ``x ^ y``."""
    return as_expr(x) ^ y


def bitwise_not(x: ExprLike) -> Expr:
    """Return ``~x``."""
    return ~as_expr(x)


def shift_left(x: ExprLike, y: ExprLike) -> Expr:
    """Return ``x << y``."""
    return as_expr(x) << y


def shift_right(x: ExprLike, y: ExprLike) -> Expr:
    """Return ``x >> y``."""
    return as_expr(x) >> y
