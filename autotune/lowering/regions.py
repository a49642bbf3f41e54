"""The regions of tensors that are read inside a loop, over all of its iterations."""

from __future__ import annotations

from collections.abc import Set
from dataclasses import dataclass
from math import isinf

from autotune.ir.analysis_affine import ZERO, Affine, Atom, AtomKind, constant, shift_affine
from autotune.ir.expr import Var
from autotune.ir.simplify import Simplifier
from autotune.lowering.extents import Extent, SymbolicSizes, as_form


@dataclass(frozen=True)
class Region:
    """The indices ``low .. low + extent - 1`` of one dimension; ``low`` may name outer loops."""

    low: Affine
    extent: Extent


def whole(extent: Extent) -> Region:
    """Return the region of a whole dimension."""
    return Region(ZERO, extent)


def relax(
    simplifier: Simplifier, sizes: SymbolicSizes, form: Affine, ranged: Set[Var]
) -> Region | None:
    """Return the interval of ``form`` over the variables ``ranged``; None if that is unknown."""
    if form.vars.isdisjoint(ranged):
        return Region(form, 1)
    parts: list[tuple[Affine, int]] = [(constant(form.const), 1)]
    extent = 1
    unknown: list[tuple[Affine, int]] = []
    for atom, k in form.terms.items():
        region = _relax_atom(simplifier, sizes, atom, ranged)
        if region is None:
            return None
        parts.append((region.low, k))
        if isinstance(region.extent, int):
            span = region.extent - 1
            if k < 0 and span:
                parts.append((constant(span), k))
            extent += abs(k) * span
            continue
        last = shift_affine(region.extent, -1)
        unknown.append((last, abs(k)))
        if k < 0:
            parts.append((last, k))
    if unknown:
        most = simplifier.combine([*unknown, (constant(extent), 1)])
        return Region(simplifier.combine(parts), most)
    return Region(simplifier.combine(parts), extent)


def _relax_atom(
    simplifier: Simplifier, sizes: SymbolicSizes, atom: Atom, ranged: Set[Var]
) -> Region | None:
    if atom.vars.isdisjoint(ranged):
        return Region(Affine({atom: 1}, 0), 1)
    if atom.kind is AtomKind.VAR and sizes.last:
        (var,) = atom.vars
        if var in sizes.last:
            return Region(ZERO, shift_affine(sizes.last[var], 1))
    if atom.vars <= ranged or atom.form is None:
        if isinf(atom.low) or isinf(atom.high):
            return None
        return Region(constant(int(atom.low)), int(atom.high - atom.low) + 1)
    inner = relax(simplifier, sizes, atom.form, ranged)
    if inner is None or not isinstance(inner.extent, int):
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
    if isinstance(a.extent, int) and isinstance(b.extent, int):
        return Region(low, max(a.extent, b.extent + d) - min(d, 0))
    ends = as_form(a.extent), shift_affine(as_form(b.extent), d)
    further = simplifier.sub(*ends)
    if further.terms:
        return None
    return Region(low, shift_affine(ends[0] if further.const >= 0 else ends[1], -min(d, 0)))


def clip(simplifier: Simplifier, region: Region, extent: Extent) -> Region:
    """Intersect a region with its dimension, as far as constants decide it.

    What is read beyond the dimension is guarded by a condition where it is read.
    """
    if not isinstance(region.extent, int) or not isinstance(extent, int):
        least = simplifier.sub(as_form(region.extent), as_form(extent)).bounds[0]
        return whole(extent) if least >= 0 else region
    if region.extent >= extent:
        return whole(extent)
    if region.low.terms:
        return region
    low = max(region.low.const, 0)
    high = min(region.low.const + region.extent, extent)
    return Region(constant(low), max(high - low, 1))
