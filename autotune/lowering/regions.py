"""Which part of a tensor is needed: regions read inside a loop, for all iterations of it."""

from __future__ import annotations

from collections.abc import Set
from dataclasses import dataclass
from math import isinf

from autotune.ir.analysis_affine import ZERO, Affine, Atom, AtomKind, constant
from autotune.ir.expr import Var
from autotune.ir.simplify import Simplifier


@dataclass(frozen=True)
class Region:
    """The indices ``low .. low + extent - 1`` of one dimension; ``low`` may name outer loops."""

    low: Affine
    extent: int


def whole(extent: int) -> Region:
    """Return the region of a whole dimension."""
    return Region(ZERO, extent)


def relax(simplifier: Simplifier, form: Affine, ranged: Set[Var]) -> Region | None:
    """Return where ``form`` lies while the variables ``ranged`` run; None if that is unknown."""
    if form.vars.isdisjoint(ranged):
        return Region(form, 1)
    parts: list[tuple[Affine, int]] = [(constant(form.const), 1)]
    extent = 1
    for atom, k in form.terms.items():
        region = _relax_atom(simplifier, atom, ranged)
        if region is None:
            return None
        span = region.extent - 1
        parts.append((region.low, k))
        if k < 0 and span:
            parts.append((constant(span), k))
        extent += abs(k) * span
    return Region(simplifier.combine(parts), extent)


def _relax_atom(simplifier: Simplifier, atom: Atom, ranged: Set[Var]) -> Region | None:
    if atom.vars.isdisjoint(ranged):
        return Region(Affine({atom: 1}, 0), 1)
    if atom.vars <= ranged or atom.form is None:
        if isinf(atom.low) or isinf(atom.high):
            return None
        return Region(constant(int(atom.low)), int(atom.high - atom.low) + 1)
    inner = relax(simplifier, atom.form, ranged)
    if inner is None:
        return None
    c = atom.divisor
    offset = simplifier.floormod(inner.low, c)
    if atom.kind is AtomKind.DIV:
        # From the largest remainder that the lowest index can have, how far the last one gets.
        last = int(offset.bounds[1]) + inner.extent - 1
        return Region(simplifier.floordiv(inner.low, c), last // c + 1)
    if offset.bounds[1] + inner.extent - 1 < c:
        return Region(offset, inner.extent)
    return Region(ZERO, c)


def cover(simplifier: Simplifier, a: Region, b: Region) -> Region | None:
    """Return the smallest region that holds both; None if it would depend on their order."""
    distance = simplifier.sub(b.low, a.low)
    if distance.terms:
        return None
    d = distance.const
    low = a.low if d >= 0 else b.low
    return Region(low, max(a.extent, b.extent + d) - min(d, 0))


def clip(region: Region, extent: int) -> Region:
    """Cut a region to a dimension as far as constants can tell.

    What is read beyond the dimension is guarded by a condition where it is read.
    """
    if region.extent >= extent:
        return whole(extent)
    if region.low.terms:
        return region
    low = max(region.low.const, 0)
    high = min(region.low.const + region.extent, extent)
    return Region(constant(low), max(high - low, 1))
