"""Affine forms: sums of integer multiples of atoms, the canonical shape of every index.

An atom is a variable, ``form // c``, ``form % c``, or an expression that is none of these. Forms
and atoms belong to one `AffineSpace`, which knows the range of each variable; the ranges do not
change, so whatever is derived from them is remembered. Two forms of one space denote the same
value if their keys are equal.

The rules of division are those that fused and split loops give rise to:

- ``(a*c + b) // c -> a + b//c`` and ``(a*c + b) % c -> b % c``;
- ``(g*a + b) // (g*c) -> a // c`` and ``(g*a + b) % (g*c) -> g*(a % c) + b`` where 0 <= b < g;
- ``(x // a) // b -> x // (a*b)``; ``(x % (a*b)) // a -> (x // a) % b``;
- ``(x % (a*b)) % a -> x % a``;
- ``(x // c)*c + x % c -> x`` and ``((x // c) % m)*c + x % c -> x % (c*m)``.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import IntEnum
from math import gcd

from autotune.ir.expr import Expr, Var
from autotune.ir.interval import Bound, floordiv

Key = tuple[int, frozenset[tuple["Atom", int]]]


class AtomKind(IntEnum):
    """What an atom stands for."""

    VAR = 0
    DIV = 1
    MOD = 2
    OPAQUE = 3


class Atom:
    """One indivisible summand, with the interval it lies in and the variables it depends on."""

    __slots__ = ("divisor", "expr", "form", "high", "kind", "low", "vars")

    def __init__(
        self,
        kind: AtomKind,
        low: Bound,
        high: Bound,
        variables: frozenset[Var],
        form: Affine | None = None,
        divisor: int = 1,
        expr: Expr | None = None,
    ) -> None:
        self.kind = kind
        self.low = low
        self.high = high
        self.vars = variables
        self.form = form
        self.divisor = divisor
        self.expr = expr


class Affine:
    """``const + sum(coefficient * atom)``; never changed once made."""

    __slots__ = ("_bounds", "_key", "_vars", "const", "terms")

    def __init__(self, terms: dict[Atom, int], const: int) -> None:
        self.terms = terms
        self.const = const
        self._bounds: tuple[Bound, Bound] | None = None
        self._key: Key | None = None
        self._vars: frozenset[Var] | None = None

    @property
    def key(self) -> Key:
        """What equal forms have in common; hashable."""
        if self._key is None:
            self._key = (self.const, frozenset(self.terms.items()))
        return self._key

    @property
    def bounds(self) -> tuple[Bound, Bound]:
        """The interval the value lies in."""
        if self._bounds is None:
            low: Bound = self.const
            high: Bound = self.const
            for atom, k in self.terms.items():
                if k > 0:
                    low += k * atom.low
                    high += k * atom.high
                else:
                    low += k * atom.high
                    high += k * atom.low
            self._bounds = (low, high)
        return self._bounds

    @property
    def vars(self) -> frozenset[Var]:
        """The variables the value depends on."""
        if self._vars is None:
            self._vars = frozenset().union(*[atom.vars for atom in self.terms])
        return self._vars

    @property
    def is_plain(self) -> bool:
        """Whether it is made of variables alone, with no opaque atom anywhere inside."""
        for atom in self.terms:
            if atom.kind is AtomKind.OPAQUE or (atom.form and not atom.form.is_plain):
                return False
        return True


ZERO = Affine({}, 0)


class Substitution(dict[Var, Affine]):
    """Values of variables, with what became of the atoms that they were put into so far."""

    __slots__ = ("atoms",)

    def __init__(self, values: Mapping[Var, Affine]) -> None:
        super().__init__(values)
        self.atoms: dict[Atom, Affine] = {}


def constant(value: int) -> Affine:
    """Return the form of a constant."""
    return Affine({}, value) if value else ZERO


def scaled(a: Affine, factor: int) -> Affine:
    """Return ``a * factor``."""
    if factor == 1:
        return a
    if factor == 0:
        return ZERO
    return Affine({atom: k * factor for atom, k in a.terms.items()}, a.const * factor)


def shifted(a: Affine, offset: int) -> Affine:
    """Return ``a + offset``."""
    return Affine(a.terms, a.const + offset) if offset else a


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
            return shifted(a, b.const)
        if not a.terms:
            return shifted(b, a.const)
        return self._merged(a, b, 1)

    def sub(self, a: Affine, b: Affine) -> Affine:
        """Return ``a - b``."""
        if not b.terms:
            return shifted(a, -b.const)
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
            partner = _single(quotient)
            if partner is not None and terms.get(partner) == k * c:
                del terms[atom], terms[partner]
                whole = atom.form
            else:
                wider = next((m for m in terms if _continues(m, quotient, terms, k * c)), None)
                if wider is None:
                    continue
                del terms[atom], terms[wider]
                whole = self.floormod(atom.form, c * wider.divisor)
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
        quotient, rest = _divide_terms(a, c)
        if quotient.terms or quotient.const:
            # The atom for the rest is then made once, whatever the quotient was.
            return self.add(quotient, self.floordiv(rest, c)) if rest.terms else quotient
        low, high = floordiv(rest.bounds, c)
        if low == high:
            return constant(int(low))
        split = _split_small(rest, c)
        if split is not None:
            g, large, _ = split
            return self.floordiv(large, c // g)
        atom = _single_plus_const(rest)
        if atom is not None and atom.form is not None:
            if atom.kind is AtomKind.DIV:
                inner = shifted(atom.form, rest.const * atom.divisor)
                return self.floordiv(inner, c * atom.divisor)
            if atom.kind is AtomKind.MOD and rest.const == 0 and atom.divisor % c == 0:
                return self.floormod(self.floordiv(atom.form, c), atom.divisor // c)
        whole, rest = _reduce_coefficients(rest, c)
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
        quotient, rest = _divide_terms(a, c)
        if quotient.terms or quotient.const:
            return self.floormod(rest, c)
        low, high = floordiv(rest.bounds, c)
        if low == high:
            return shifted(rest, -int(low) * c)
        split = _split_small(rest, c)
        if split is not None:
            g, large, small = split
            return self.combine([(self.floormod(large, c // g), g), (small, 1)])
        atom = _single_plus_const(rest)
        nested = atom is not None and atom.kind is AtomKind.MOD and atom.divisor % c == 0
        if nested and atom is not None and atom.form is not None:
            return self.floormod(shifted(atom.form, rest.const), c)
        whole, rest = _reduce_coefficients(rest, c)
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


def _single(a: Affine) -> Atom | None:
    """Return the atom if the form is just one."""
    return _single_plus_const(a) if a.const == 0 else None


def _single_plus_const(a: Affine) -> Atom | None:
    """Return the atom if the form is one atom plus a constant."""
    if len(a.terms) != 1:
        return None
    ((atom, k),) = a.terms.items()
    return atom if k == 1 else None


def _continues(atom: Atom, quotient: Affine, terms: Mapping[Atom, int], k: int) -> bool:
    """Tell whether ``atom`` is ``quotient % m`` and occurs ``k`` times."""
    if atom.kind is not AtomKind.MOD or atom.form is None or terms[atom] != k:
        return False
    return atom.form.key == quotient.key


def _divide_terms(a: Affine, c: int) -> tuple[Affine, Affine]:
    """Split ``a`` in ``c * quotient + rest``: what divides exactly, and what does not."""
    quotient, rest = {}, {}
    for atom, k in a.terms.items():
        if k % c:
            rest[atom] = k
        else:
            quotient[atom] = k // c
    q, r = divmod(a.const, c)
    return Affine(quotient, q), Affine(rest, r)


def _split_small(rest: Affine, c: int) -> tuple[int, Affine, Affine] | None:
    """Find ``g`` dividing ``c`` with ``rest = g*large + small`` and ``0 <= small < g``."""
    items = sorted(rest.terms.items(), key=_by_size)
    g = c
    for i, (_, k) in enumerate(items):
        g = gcd(g, k)
        if g == 1:
            return None
        q, r = divmod(rest.const, g)
        small = Affine(dict(items[i + 1 :]), r)
        low, high = small.bounds
        if low >= 0 and high < g:
            return g, Affine({atom: k // g for atom, k in items[: i + 1]}, q), small
    return None


def _by_size(item: tuple[Atom, int]) -> int:
    return -abs(item[1])


def _reduce_coefficients(rest: Affine, c: int) -> tuple[Affine, Affine]:
    """Split off multiples of ``c`` from coefficients that exceed it."""
    whole, small = {}, {}
    for atom, k in rest.terms.items():
        q = abs(k) // c * (1 if k > 0 else -1)
        if q:
            whole[atom] = q
        small[atom] = k - q * c
    return Affine(whole, 0), Affine(small, rest.const) if whole else rest
