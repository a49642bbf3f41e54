"""Splits an affine form by a divisor: the terms that it divides, and the others."""

from __future__ import annotations

from collections.abc import Mapping
from math import gcd

from autotune.ir.affine_form import Affine, Atom, AtomKind


def single_atom(a: Affine) -> Atom | None:
    """Return the atom if the form is just one."""
    return single_plus_const(a) if a.const == 0 else None


def single_plus_const(a: Affine) -> Atom | None:
    """Return the atom if the form is one atom plus a constant."""
    if len(a.terms) != 1:
        return None
    ((atom, k),) = a.terms.items()
    return atom if k == 1 else None


def only_quotient(a: Affine) -> Atom | None:
    """Return the one quotient in a sum, if it occurs once and nothing else there is divided."""
    found = None
    for atom, k in a.terms.items():
        if atom.kind is AtomKind.DIV:
            if found is not None or k != 1:
                return None
            found = atom
        elif atom.kind is AtomKind.MOD:
            return None
    return found


def continues(atom: Atom, quotient: Atom | None, terms: Mapping[Atom, int], k: int) -> bool:
    """Return whether ``atom`` is ``(y + quotient) % m`` and occurs ``k`` times."""
    if atom.kind is not AtomKind.MOD or atom.form is None or terms[atom] != k:
        return False
    return quotient is not None and atom.form.terms.get(quotient) == 1


def divide_terms(a: Affine, c: int) -> tuple[Affine, Affine]:
    """Split ``a`` in ``c * quotient + rest``: what divides exactly, and what does not."""
    quotient, rest = {}, {}
    for atom, k in a.terms.items():
        if k % c:
            rest[atom] = k
        else:
            quotient[atom] = k // c
    q, r = divmod(a.const, c)
    return Affine(quotient, q), Affine(rest, r)


def split_small(rest: Affine, c: int) -> tuple[int, Affine, Affine] | None:
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


def reduce_coefficients(rest: Affine, c: int) -> tuple[Affine, Affine]:
    """Split off multiples of ``c`` from coefficients that exceed it."""
    whole, small = {}, {}
    for atom, k in rest.terms.items():
        q = abs(k) // c * (1 if k > 0 else -1)
        if q:
            whole[atom] = q
        small[atom] = k - q * c
    return Affine(whole, 0), Affine(small, rest.const) if whole else rest
