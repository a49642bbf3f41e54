"""TVM's comparisons of expressions by their structure."""

from __future__ import annotations

from autotune.ir import Expr, Var, as_expr, same, substitute, variables

__all__ = ["assert_structural_equal", "structural_equal"]


def structural_equal(lhs: object, rhs: object, map_free_vars: bool = False) -> bool:
    """Return whether two expressions have the same operations, constants and variables.

    Args:
        lhs: an expression.
        rhs: another one.
        map_free_vars: whether a variable of one may stand where another of its type does in the
            other; else variables are equal only to themselves.
    """
    one, other = as_expr(lhs), as_expr(rhs)
    if map_free_vars:
        theirs, ours = variables(other), variables(one)
        pairs = zip(theirs, ours, strict=False)
        renamed: dict[Var, Expr] = {a: b for a, b in pairs if a.dtype == b.dtype}
        other = substitute(other, renamed)
    return same(one, other)


def assert_structural_equal(lhs: object, rhs: object, map_free_vars: bool = False) -> None:
    """Raise ValueError unless `structural_equal`."""
    if not structural_equal(lhs, rhs, map_free_vars):
        raise ValueError(f"expected the same expression, got {lhs} and {rhs}")
