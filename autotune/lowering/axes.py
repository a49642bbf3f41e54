"""The axes of one stage: the extents of its loops, the values of its axes, the tail conditions."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from autotune.errors import LoweringError
from autotune.ir.analysis_affine import ZERO, Affine, constant, scaled
from autotune.ir.expr import Expr, IntImm, IterVar
from autotune.ir.simplify import Simplifier
from autotune.te.relation import FuseRelation, Relation, SingletonRelation, SplitRelation
from autotune.utils.math import ceil_div


def loop_extents(
    relations: Sequence[Relation], roots: Mapping[IterVar, int], threads: Iterable[IterVar]
) -> dict[IterVar, int]:
    """Return the extents of all axes of a stage.

    A part of a split never exceeds its parent, except where a thread axis is made of it
    (``threads`` are the bound loops): all stages of a kernel have to agree on the threads.
    """
    extents = dict(roots)
    fixed = _ancestors(relations, threads)
    for relation in relations:
        match relation:
            case SplitRelation(parent, outer, inner, factor, nparts):
                whole = extents[parent]
                if factor is not None:
                    size = factor if inner in fixed else min(factor, whole)
                    extents[outer], extents[inner] = ceil_div(whole, size), size
                else:
                    parts = nparts or 1
                    parts = parts if outer in fixed else min(parts, whole)
                    extents[outer], extents[inner] = parts, ceil_div(whole, parts)
            case FuseRelation(outer, inner, fused):
                extents[fused] = extents[outer] * extents[inner]
            case SingletonRelation(each):
                extents[each] = 1
    return extents


def _ancestors(relations: Sequence[Relation], axes: Iterable[IterVar]) -> set[IterVar]:
    """Return the axes from which the given ones derive, themselves included."""
    found = set(axes)
    if not found:
        return found
    for relation in reversed(relations):
        match relation:
            case SplitRelation(parent, outer, inner) if outer in found or inner in found:
                found.add(parent)
            case FuseRelation(outer, inner, fused) if fused in found:
                found |= {outer, inner}
            case _:
                pass
    return found


def axis_values(
    simplifier: Simplifier,
    relations: Sequence[Relation],
    extents: Mapping[IterVar, int],
    loops: Mapping[IterVar, Affine],
) -> dict[IterVar, Affine]:
    """Return the value of every axis in terms of the loops."""
    values = dict(loops)
    for relation in reversed(relations):
        match relation:
            case SplitRelation(parent, outer, inner):
                values[parent] = simplifier.add(
                    scaled(values[outer], extents[inner]), values[inner]
                )
            case FuseRelation(outer, inner, fused) if extents[outer] == 1:
                # What runs past the end of the fused loop is turned away by a condition.
                values[outer], values[inner] = ZERO, values[fused]
            case FuseRelation(outer, inner, fused):
                values[outer] = simplifier.floordiv(values[fused], extents[inner])
                values[inner] = simplifier.floormod(values[fused], extents[inner])
            case SingletonRelation():
                pass
    return values


def overrun_conditions(
    simplifier: Simplifier,
    relations: Sequence[Relation],
    extents: Mapping[IterVar, int],
    values: Mapping[IterVar, Affine],
) -> list[tuple[IterVar, Expr]]:
    """Return what must hold where the parts of a split run past the end of their parent."""
    found = []
    for relation in relations:
        if not isinstance(relation, SplitRelation):
            continue
        parent, whole = relation.parent, extents[relation.parent]
        if extents[relation.outer] * extents[relation.inner] > whole:
            inside = simplifier.compare("<", values[parent], constant(whole))
            found.append((parent, inside))
    return found


def constant_extent(stage: str, axis: IterVar) -> int:
    """Return the extent of an axis of a compute; it has to be known now."""
    extent = axis.dom.extent if axis.dom is not None else None
    if not isinstance(extent, IntImm):
        raise LoweringError(
            f"{stage}: the extent of axis {axis.var.name!r} is {extent}; it must be a constant to "
            "be lowered, so give the tensors constant shapes"
        )
    return extent.value
