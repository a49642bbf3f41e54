"""The axes of one stage: the extents of its loops, the values of its axes, the tail conditions."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from autotune.errors import LoweringError
from autotune.ir.analysis_affine import ZERO, Affine
from autotune.ir.dtype import INDEX_DTYPE, int_range
from autotune.ir.expr import Expr, IterVar
from autotune.ir.simplify import Simplifier
from autotune.lowering.extents import (
    Extent,
    as_extent,
    as_form,
    ceil_divide,
    divide,
    is_constant,
    same_extent,
    times,
)
from autotune.te.relation import FuseRelation, Relation, SingletonRelation, SplitRelation
from autotune.utils.assert_never import assert_never

_MOST = int_range(INDEX_DTYPE)[1]


def loop_extents(
    simplifier: Simplifier,
    relations: Sequence[Relation],
    roots: Mapping[IterVar, Extent],
    threads: Iterable[IterVar],
) -> dict[IterVar, Extent]:
    """Return the extents of all axes of a stage.

    A part of a split never exceeds its parent, except where a thread axis is made of it
    (``threads`` are the bound loops): all stages of a kernel have to agree on the threads.

    Raises:
        LoweringError: fused loops have more iterations than an index can count.
    """
    extents = dict(roots)
    fixed = _ancestors(relations, threads)
    for relation in relations:
        match relation:
            case SplitRelation(parent, outer, inner, factor, nparts):
                whole = extents[parent]
                most = whole if is_constant(whole) else factor or nparts or 1
                if factor is not None:
                    size = factor if inner in fixed else min(factor, most)
                    extents[outer], extents[inner] = ceil_divide(simplifier, whole, size), size
                else:
                    parts = nparts or 1
                    parts = parts if outer in fixed else min(parts, most)
                    extents[outer], extents[inner] = parts, ceil_divide(simplifier, whole, parts)
            case FuseRelation(outer, inner, fused):
                extents[fused] = _product(simplifier, extents[outer], extents[inner])
                _check_count(f"fuse: loop {fused.name!r}", extents[fused])
            case SingletonRelation(each):
                extents[each] = 1
    return extents


def _product(simplifier: Simplifier, a: Extent, b: Extent) -> Extent:
    if is_constant(a) and is_constant(b):
        return a * b
    return as_extent(times(simplifier, as_form(a), b))


def _check_count(what: str, extent: Extent) -> None:
    if is_constant(extent) and extent > _MOST:
        raise LoweringError(
            f"{what} would have {extent} iterations; expected at most {_MOST}, as indices have 32 "
            "bits; fuse fewer loops, or split by a smaller factor"
        )


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
    extents: Mapping[IterVar, Extent],
    loops: Mapping[IterVar, Affine],
) -> dict[IterVar, Affine]:
    """Return the value of every axis in terms of the loops."""
    values = dict(loops)
    for relation in reversed(relations):
        match relation:
            case SplitRelation(parent, outer, inner):
                values[parent] = simplifier.add(
                    times(simplifier, values[outer], extents[inner]), values[inner]
                )
            case FuseRelation(outer, inner, fused) if extents[outer] == 1:
                # Iterations beyond the end of the fused loop are excluded by a condition.
                values[outer], values[inner] = ZERO, values[fused]
            case FuseRelation(outer, inner, fused):
                parts = divide(simplifier, values[fused], extents[inner])
                values[outer], values[inner] = parts
            case SingletonRelation():
                pass
            case _:
                assert_never(relation)
    return values


def overrun_conditions(
    simplifier: Simplifier,
    relations: Sequence[Relation],
    extents: Mapping[IterVar, Extent],
    values: Mapping[IterVar, Affine],
) -> list[tuple[IterVar, Expr]]:
    """Return ``value < extent`` of each axis whose split has more iterations than it.

    Raises:
        LoweringError: an index cannot count how far they run.
    """
    found = []
    for relation in relations:
        if not isinstance(relation, SplitRelation):
            continue
        parent, whole = relation.parent, extents[relation.parent]
        total = _product(simplifier, extents[relation.outer], extents[relation.inner])
        _check_count(f"split: the parts of loop {parent.name!r}", total)
        if is_constant(total) and is_constant(whole):
            overruns = total > whole
        else:
            overruns = not same_extent(total, whole)
        if overruns:
            inside = simplifier.compare("<", values[parent], as_form(whole))
            found.append((parent, inside))
    return found
