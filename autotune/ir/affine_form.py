"""Affine forms as data: atoms, and sums of integer multiples of them."""

from __future__ import annotations

from collections.abc import Mapping
from enum import IntEnum

from autotune.ir.expr import Expr, Var
from autotune.ir.interval import Bound

Key = tuple[int, frozenset[tuple["Atom", int]]]


class AtomKind(IntEnum):
    """The kind of an atom."""

    VAR = 0
    DIV = 1
    MOD = 2
    OPAQUE = 3


class Atom:
    """One indivisible summand, with its interval and the variables it depends on."""

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

    __slots__ = ("_bounds", "_key", "_plain", "_vars", "const", "terms")

    def __init__(self, terms: dict[Atom, int], const: int) -> None:
        self.terms = terms
        self.const = const
        self._bounds: tuple[Bound, Bound] | None = None
        self._key: Key | None = None
        self._vars: frozenset[Var] | None = None
        self._plain: bool | None = None

    @property
    def key(self) -> Key:
        """A hashable key, equal for equal forms."""
        if self._key is None:
            self._key = (self.const, frozenset(self.terms.items()))
        return self._key

    @property
    def bounds(self) -> tuple[Bound, Bound]:
        """The interval of the value."""
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
        if self._plain is None:
            self._plain = all(
                atom.kind is not AtomKind.OPAQUE and (atom.form is None or atom.form.is_plain)
                for atom in self.terms
            )
        return self._plain


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


def scale_affine(a: Affine, factor: int) -> Affine:
    """Return ``a * factor``."""
    if factor == 1:
        return a
    if factor == 0:
        return ZERO
    return Affine({atom: k * factor for atom, k in a.terms.items()}, a.const * factor)


def shift_affine(a: Affine, offset: int) -> Affine:
    """Return ``a + offset``."""
    return Affine(a.terms, a.const + offset) if offset else a
