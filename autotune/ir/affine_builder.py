"""The way back from affine forms and comparisons to expressions; the other is the simplifier."""

from __future__ import annotations

from collections.abc import Mapping

from autotune.ir.analysis_affine import Affine, AffineSpace, Atom, AtomKind, Key, scale_affine
from autotune.ir.analysis_condition import Comparison, compare_forms
from autotune.ir.dtype import INDEX_DTYPE
from autotune.ir.expr import (
    Add,
    And,
    Expr,
    FloorDiv,
    FloorMod,
    IntImm,
    Mul,
    Sub,
    TruncDiv,
    TruncMod,
    Var,
)

TRUE = IntImm(1, "bool")
FALSE = IntImm(0, "bool")


class AffineBuilder(AffineSpace):
    """Builds the expressions of forms, each once, and remembers which form each has."""

    def __init__(self, ranges: Mapping[Var, tuple[int, int]] | None = None) -> None:
        super().__init__(ranges)
        self._form: dict[Expr, Affine] = {}
        self._built: dict[Key, Expr] = {}
        self._products: dict[tuple[Atom, int], Expr] = {}
        self._conditions: dict[tuple[Comparison, Key], Expr] = {}

    def known_form(self, expr: Expr) -> Affine | None:
        """Return the form of an expression that this simplifier built, else None."""
        return self._form.get(expr)

    def expr(self, value: Affine | Expr) -> Expr:
        """Return the expression of a form; equal forms give the same object."""
        if not isinstance(value, Affine):
            return value
        expr = self._built.get(value.key)
        if expr is None:
            expr = self._built[value.key] = self._build(value)
            self._form[expr] = value
        return expr

    def compare(self, op: Comparison, a: Affine, b: Affine) -> Expr:
        """Return the condition ``a op b``: a constant if the ranges decide it."""
        return self.condition(op, self.sub(a, b))

    def condition(self, op: Comparison, a: Affine) -> Expr:
        """Return the condition ``a op 0``; equal conditions give the same object."""
        memo = (op, a.key)
        found = self._conditions.get(memo)
        if found is None:
            made = compare_forms(op, a)
            if isinstance(made, bool):
                found = TRUE if made else FALSE
            else:
                cls, left, right = made
                found = cls(self.expr(left), self.expr(right))
            self._conditions[memo] = found
        return found

    def conjunction(self, conditions: list[Expr]) -> Expr:
        """Return the conjunction of conditions, each named once."""
        result: Expr = TRUE
        for condition in dict.fromkeys(conditions):
            result = And.fold(result, condition)
        return result

    def _build(self, value: Affine) -> Expr:
        terms = value.terms
        if not terms:
            return IntImm(value.const, INDEX_DTYPE)
        if value.const:
            base = self.expr(Affine(terms, 0))
            size = IntImm(abs(value.const), INDEX_DTYPE)
            if value.const < 0:
                return Sub(base, size)
            if max(terms.values()) < 0:
                return Sub(size, self.expr(scale_affine(Affine(terms, 0), -1)))
            return Add(base, size)
        items = sorted(terms.items(), key=_positive_then_large)
        result: Expr | None = None
        for atom, k in items:
            if result is None:
                result = self._product(atom, k)
            else:
                result = (Add if k > 0 else Sub)(result, self._product(atom, abs(k)))
        assert result is not None
        return result

    def _product(self, atom: Atom, k: int) -> Expr:
        if k == 1:
            return self._atom_expr(atom)
        memo = (atom, k)
        expr = self._products.get(memo)
        if expr is None:
            expr = Mul(self._atom_expr(atom), IntImm(k, INDEX_DTYPE))
            self._products[memo] = expr
        return expr

    def _atom_expr(self, atom: Atom) -> Expr:
        if atom.expr is not None:
            return atom.expr
        assert atom.form is not None
        inner = self.expr(atom.form)
        divisor = IntImm(atom.divisor, INDEX_DTYPE)
        # C divides towards zero; shifts and masks round down. Where the numerator cannot be
        # negative it is all the same, and the plain operator is the fastest.
        plain = atom.form.bounds[0] >= 0 and atom.divisor & (atom.divisor - 1)
        if atom.kind is AtomKind.DIV:
            atom.expr = (TruncDiv if plain else FloorDiv)(inner, divisor)
        else:
            atom.expr = (TruncMod if plain else FloorMod)(inner, divisor)
        return atom.expr


def _positive_then_large(item: tuple[Atom, int]) -> tuple[bool, int]:
    return item[1] < 0, -abs(item[1])
