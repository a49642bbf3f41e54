"""TVM's comparisons of expressions by their structure."""

from __future__ import annotations

from autotune.ir import as_expr, same

__all__ = ["assert_structural_equal", "structural_equal"]


def structural_equal(lhs: object, rhs: object, map_free_vars: bool = False) -> bool:
    """Return whether two expressions have the same operations, constants and variables.

    Args:
        lhs: an expression.
        rhs: another one.
        map_free_vars: kept for TVM's signature; variables are equal only to themselves.
    """
    del map_free_vars
    return same(as_expr(lhs), as_expr(rhs))


def assert_structural_equal(lhs: object, rhs: object, map_free_vars: bool = False) -> None:
    """Raise ValueError unless `structural_equal`."""
    if not structural_equal(lhs, rhs, map_free_vars):
        raise ValueError(f"expected the same expression, got {lhs} and {rhs}")
