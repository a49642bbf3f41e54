"""Affine forms: sums of integer multiples of atoms, the canonical shape of every index.

An atom is a variable, ``form // c``, ``form % c``, or an expression that is none of these. Forms
and atoms belong to one `AffineSpace`, which knows the range of each variable; the ranges do not
change, so whatever is derived from them is remembered. Two forms of one space denote the same
value if their keys are equal.

The rules of division are those that fused and split loops give rise to:

- ``(a*c + b) // c -> a + b//c`` and ``(a*c + b) % c -> b % c``;
- ``(g*a + b) // (g*c) -> a // c`` and ``(g*a + b) % (g*c) -> g*(a % c) + b`` where 0 <= b < g;
- ``(y + x // a) // b -> (a*y + x) // (a*b)``; ``(x % (a*b)) // a -> (x // a) % b``;
- ``(x % (a*b)) % a -> x % a``;
- ``(x // c)*c + x % c -> x`` and ``((y + x // c) % m)*c + x % c -> (c*y + x) % (c*m)``: so digits
  that a fused loop was taken apart into become one number again where they index neighbours.
"""

from __future__ import annotations

from collections.abc import Mapping

from autotune.ir.affine_division import (
    continues,
    divide_terms,
    only_quotient,
    reduce_coefficients,
    single_atom,
    single_plus_const,
    split_small,
)
from autotune.ir.affine_form import (
    ZERO,
    Affine,
    Atom,
    AtomKind,
    Key,
    Substitution,
    constant,
    scale_affine,
    shift_affine,
)
from autotune.ir.expr import Expr, Var
from autotune.ir.interval import Bound, floordiv

__all__ = [
    "ZERO",
    "Affine",
    "AffineSpace",
    "Atom",
    "AtomKind",
    "Key",
    "Substitution",
    "constant",
    "scale_affine",
    "shift_affine",
]


class AffineSpace:
    """All forms over one set of variables, and the arithmetic on them."""

    def __init__(self, ranges: Mapping[Var, tuple[int, int]] | None = None) -> None:
        self._vars: dict[Var, Affine] = {}
        self._opaque: dict[Expr, Affine] = {}
        self._div: dict[tuple[Key, int], Affine] = {}
        self._mod: dict[tuple[Key, int], Affine] = {}
        for var, (low, high) in (ranges or {}).items():
            self.bind(var, low, high)

    def bind(self, var: Var, low: Bound, high: Bound) -> Affine:
        """Declare the range of a variable, once, before it is used; return its form."""
        if low == high:
            form = constant(int(low))
        else:
            form = Affine({Atom(AtomKind.VAR, low, high, frozenset((var,)), expr=var): 1}, 0)
        self._vars[var] = form
        return form

    def var(self, var: Var) -> Affine:
        """Return the form of a variable; one that was not bound may be any integer."""
        form = self._vars.get(var)
        return self.bind(var, float("-inf"), float("inf")) if form is None else form

    def opaque(self, expr: Expr, low: Bound, high: Bound, variables: frozenset[Var]) -> Affine:
        """Return the form of an expression that has no affine structure."""
        form = self._opaque.get(expr)
        if form is None:
            form = Affine({Atom(AtomKind.OPAQUE, low, high, variables, expr=expr): 1}, 0)
            self._opaque[expr] = form
        return form

    def add(self, a: Affine, b: Affine) -> Affine:
        """Return ``a + b``."""
        if not b.terms:
            return shift_affine(a, b.const)
        if not a.terms:
            return shift_affine(b, a.const)
        return self._merged(a, b, 1)

    def sub(self, a: Affine, b: Affine) -> Affine:
        """Return ``a - b``."""
        if not b.terms:
            return shift_affine(a, -b.const)
        return self._merged(a, b, -1)

    def _merged(self, a: Affine, b: Affine, sign: int) -> Affine:
        terms = dict(a.terms)
        for atom, k in b.terms.items():
            k = terms.get(atom, 0) + sign * k
            if k:
                terms[atom] = k
            else:
                del terms[atom]
        const = a.const + sign * b.const
        for atom in terms:
            if atom.kind is AtomKind.MOD:
                return self._recompose(terms, const)
        return Affine(terms, const)

    def combine(self, parts: list[tuple[Affine, int]]) -> Affine:
        """Return ``sum(form * factor)``: several additions in one."""
        terms: dict[Atom, int] = {}
        const = 0
        has_mod = False
        for form, factor in parts:
            const += form.const * factor
            for atom, k in form.terms.items():
                terms[atom] = terms.get(atom, 0) + k * factor
                has_mod = has_mod or atom.kind is AtomKind.MOD
        if 0 in terms.values():
            terms = {atom: k for atom, k in terms.items() if k}
        return self._recompose(terms, const) if has_mod else Affine(terms, const)

    def _recompose(self, terms: dict[Atom, int], const: int) -> Affine:
        """Undo divisions whose quotient and remainder have met again."""
        for atom in list(terms):
            if atom.kind is not AtomKind.MOD or atom not in terms or atom.form is None:
                continue
            k, c = terms[atom], atom.divisor
            quotient = self.floordiv(atom.form, c)
            partner = single_atom(quotient)
            if partner is not None and terms.get(partner) == k * c:
                del terms[atom], terms[partner]
                whole = atom.form
            else:
                wider = next((m for m in terms if continues(m, partner, terms, k * c)), None)
                if wider is None or wider.form is None:
                    continue
                del terms[atom], terms[wider]
                x = self.combine([(wider.form, c), (quotient, -c), (atom.form, 1)])
                whole = self.floormod(x, c * wider.divisor)
            return self.combine([(Affine(terms, const), 1), (whole, k)])
        return Affine(terms, const)

    def floordiv(self, a: Affine, c: int) -> Affine:
        """Return ``a // c`` for a positive ``c``."""
        if c == 1:
            return a
        if not a.terms:
            return constant(a.const // c)
        memo = (a.key, c)
        result = self._div.get(memo)
        if result is None:
            result = self._div[memo] = self._floordiv(a, c)
        return result

    def _floordiv(self, a: Affine, c: int) -> Affine:
        quotient, rest = divide_terms(a, c)
        if quotient.terms or quotient.const:
            # The atom for the rest is then made once, whatever the quotient was.
            return self.add(quotient, self.floordiv(rest, c)) if rest.terms else quotient
        low, high = floordiv(rest.bounds, c)
        if low == high:
            return constant(int(low))
        split = split_small(rest, c)
        if split is not None:
            g, large, _ = split
            return self.floordiv(large, c // g)
        inner = only_quotient(rest)
        if inner is not None and inner.form is not None:
            terms = {each: k for each, k in rest.terms.items() if each is not inner}
            around = scale_affine(Affine(terms, rest.const), inner.divisor)
            return self.floordiv(self.add(around, inner.form), c * inner.divisor)
        atom = single_atom(rest)
        remainder = atom is not None and atom.kind is AtomKind.MOD and atom.divisor % c == 0
        if remainder and atom is not None and atom.form is not None:
            return self.floormod(self.floordiv(atom.form, c), atom.divisor // c)
        whole, rest = reduce_coefficients(rest, c)
        if whole.terms:
            return self.add(whole, self.floordiv(rest, c))
        new = Atom(AtomKind.DIV, low, high, rest.vars, rest, c)
        return Affine({new: 1}, 0)

    def floormod(self, a: Affine, c: int) -> Affine:
        """Return ``a % c`` for a positive ``c``."""
        if c == 1:
            return ZERO
        if not a.terms:
            return constant(a.const % c)
        memo = (a.key, c)
        result = self._mod.get(memo)
        if result is None:
            result = self._mod[memo] = self._floormod(a, c)
        return result

    def _floormod(self, a: Affine, c: int) -> Affine:
        quotient, rest = divide_terms(a, c)
        if quotient.terms or quotient.const:
            return self.floormod(rest, c)
        low, high = floordiv(rest.bounds, c)
        if low == high:
            return shift_affine(rest, -int(low) * c)
        split = split_small(rest, c)
        if split is not None:
            g, large, small = split
            return self.combine([(self.floormod(large, c // g), g), (small, 1)])
        atom = single_plus_const(rest)
        nested = atom is not None and atom.kind is AtomKind.MOD and atom.divisor % c == 0
        if nested and atom is not None and atom.form is not None:
            return self.floormod(shift_affine(atom.form, rest.const), c)
        whole, rest = reduce_coefficients(rest, c)
        if whole.terms:
            return self.floormod(rest, c)
        return Affine({Atom(AtomKind.MOD, 0, c - 1, rest.vars, rest, c): 1}, 0)

    def substitute(self, a: Affine, values: Mapping[Var, Affine]) -> Affine:
        """Replace variables by forms and simplify again; opaque atoms must not hold them."""
        if a.vars.isdisjoint(values):
            return a
        kept: dict[Atom, int] = {}
        parts: list[tuple[Affine, int]] = [(Affine(kept, a.const), 1)]
        known = values.atoms if isinstance(values, Substitution) else {}
        for atom, k in a.terms.items():
            if atom.vars.isdisjoint(values):
                kept[atom] = k
                continue
            new = known.get(atom)
            if new is None:
                new = known[atom] = self._substitute_atom(atom, values)
            parts.append((new, k))
        return self.combine(parts)

    def _substitute_atom(self, atom: Atom, values: Mapping[Var, Affine]) -> Affine:
        if atom.kind is AtomKind.VAR:
            (var,) = atom.vars
            return values[var]
        if atom.form is None:
            raise ValueError("an opaque atom cannot be rewritten as a form")
        inner = self.substitute(atom.form, values)
        if atom.kind is AtomKind.DIV:
            return self.floordiv(inner, atom.divisor)
        return self.floormod(inner, atom.divisor)
