"""TVM's `arith`: what is known of integer expressions."""

from __future__ import annotations

from dataclasses import dataclass
from math import isinf

from autotune.errors import ExpressionError
from autotune.ir import Expr, IntImm, Range, Var
from autotune.ir.base import as_expr
from autotune.ir.simplify import Simplifier
from autotune.utils.check import shown

# What TVM has for an end that is not known.
_INFINITY = 2**63 - 1


@dataclass(frozen=True)
class ConstIntBound:
    """The least and the greatest value of an expression, both inclusive."""

    min_value: int
    max_value: int
    POS_INF = _INFINITY
    NEG_INF = -_INFINITY


class Analyzer:
    """Simplifies expressions over variables whose ranges it was told by `bind`.

    Example::

        analyzer = tvm.arith.Analyzer()
        analyzer.bind(i, tvm.ir.Range(0, 8))
        assert analyzer.can_prove(i < 9)
    """

    def __init__(self) -> None:
        self._ranges: dict[Var, tuple[int, int]] = {}
        self._values: dict[Var, Expr] = {}

    def bind(self, var: Var, expr: Range | Expr | int) -> None:
        """Say which values a variable has: those of a constant range, or one value.

        Raises:
            ExpressionError: a range has no constant ends.
        """
        if not isinstance(var, Var):
            raise ExpressionError(f"Analyzer.bind: var must be a variable, got {shown(var)}")
        if not isinstance(expr, Range):
            self._values[var] = as_expr(expr)
            return
        begin, extent = (self.simplify(part) for part in (expr.min, expr.extent))
        if not isinstance(begin, IntImm) or not isinstance(extent, IntImm):
            raise ExpressionError(f"Analyzer.bind: the range must be constant, got {shown(expr)}")
        self._ranges[var] = begin.value, begin.value + extent.value - 1

    def simplify(self, expr: Expr | int, steps: int = 2) -> Expr:
        """Return an equal, simpler expression; ``steps`` is accepted for TVM's scripts."""
        del steps
        simplifier = Simplifier(self._ranges)
        env = {var: simplifier.form(value) for var, value in self._values.items()}
        return simplifier.simplify(as_expr(expr), env)

    def rewrite_simplify(self, expr: Expr | int) -> Expr:
        """Do what `simplify` does."""
        return self.simplify(expr)

    def canonical_simplify(self, expr: Expr | int) -> Expr:
        """Do what `simplify` does."""
        return self.simplify(expr)

    def const_int_bound(self, expr: Expr | int) -> ConstIntBound:
        """Return between which numbers an integer expression is."""
        low, high = Simplifier(self._ranges).bounds(self.simplify(expr))
        return ConstIntBound(
            -_INFINITY if isinf(low) else int(low), _INFINITY if isinf(high) else int(high)
        )

    def can_prove(self, expr: Expr | bool) -> bool:
        """Return whether a condition is known to hold."""
        if isinstance(expr, bool):
            return expr
        found = self.simplify(expr)
        return isinstance(found, IntImm) and bool(found.value)

    def can_prove_equal(self, lhs: Expr | int, rhs: Expr | int) -> bool:
        """Return whether two expressions are known to be equal."""
        difference = self.simplify(as_expr(lhs) - rhs)
        return isinstance(difference, IntImm) and difference.value == 0
