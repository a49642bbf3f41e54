"""Relations between the axes of a stage, and the extents and values that follow."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from autotune.ir import Expr, IterVar, as_expr
from autotune.utils.assert_never import assert_never
from autotune.utils.math import ceil_div

Extent = int | Expr


@dataclass(frozen=True, eq=False)
class SplitRelation:
    """``parent`` was split; ``factor`` is the inner extent, or ``nparts`` the outer one."""

    parent: IterVar
    outer: IterVar
    inner: IterVar
    factor: int | None
    nparts: int | None

    @property
    def axes(self) -> frozenset[IterVar]:
        """All axes that are related."""
        return frozenset((self.parent, self.outer, self.inner))


@dataclass(frozen=True, eq=False)
class FuseRelation:
    """``outer`` and ``inner`` became one axis, ``fused``."""

    outer: IterVar
    inner: IterVar
    fused: IterVar

    @property
    def axes(self) -> frozenset[IterVar]:
        """All axes that are related."""
        return frozenset((self.outer, self.inner, self.fused))


@dataclass(frozen=True, eq=False)
class SingletonRelation:
    """``iter`` is a loop of one iteration that does not come from an axis."""

    iter: IterVar

    @property
    def axes(self) -> frozenset[IterVar]:
        """The axis."""
        return frozenset((self.iter,))


Relation = SplitRelation | FuseRelation | SingletonRelation


def split_extents(relation: SplitRelation, extent: Extent) -> tuple[Extent, Extent]:
    """Return the outer and inner extents of a split; neither exceeds a constant parent."""
    if not isinstance(extent, int):
        by = relation.factor or relation.nparts or 1
        other = (extent + (by - 1)) // by
        return (other, by) if relation.factor is not None else (by, other)
    if relation.factor is not None:
        inner = min(relation.factor, extent)
        return ceil_div(extent, inner), inner
    outer = min(relation.nparts or 1, extent)
    return outer, ceil_div(extent, outer)


def pass_down(relations: Sequence[Relation], extents: dict[IterVar, Extent]) -> None:
    """Add to ``extents`` those of the axes derived from the ones it holds."""
    for relation in relations:
        match relation:
            case SplitRelation(parent, outer, inner):
                if parent in extents:
                    extents[outer], extents[inner] = split_extents(relation, extents[parent])
            case FuseRelation(outer, inner, fused):
                if outer in extents and inner in extents:
                    extents[fused] = extents[outer] * extents[inner]
            case SingletonRelation(each):
                extents[each] = 1
            case _:
                assert_never(relation)


def pass_up(
    relations: Sequence[Relation], extents: dict[IterVar, Extent], values: dict[IterVar, Expr]
) -> None:
    """Add to ``values`` those of the axes from which the ones it holds were derived."""
    for relation in reversed(relations):
        match relation:
            case SplitRelation(parent, outer, inner):
                if outer in values and inner in values:
                    values[parent] = values[outer] * extents[inner] + values[inner]
            case FuseRelation(outer, inner, fused):
                if fused in values:
                    values[outer] = values[fused] // extents[inner]
                    values[inner] = values[fused] % extents[inner]
            case SingletonRelation():
                pass
            case _:
                assert_never(relation)


def overruns(
    relations: Sequence[Relation], extents: dict[IterVar, Extent]
) -> Iterable[SplitRelation]:
    """Yield the splits whose parts run past the end of their parent."""
    for relation in relations:
        if isinstance(relation, SplitRelation) and relation.parent in extents:
            parts = extents[relation.outer] * extents[relation.inner]
            whole = extents[relation.parent]
            if not isinstance(parts, int) or not isinstance(whole, int) or parts > whole:
                yield relation


def related_axes(relations: Sequence[Relation], axis: IterVar) -> set[IterVar]:
    """Return all axes related to ``axis``: its origins, and all that are derived from these."""
    found = {axis}
    while True:
        before = len(found)
        for relation in relations:
            if not relation.axes.isdisjoint(found):
                found |= relation.axes
        if len(found) == before:
            return found


def extent_of(axis: IterVar) -> int | None:
    """Return the extent of an axis if it is known and constant."""
    if axis.dom is None:
        return None
    extent = as_expr(axis.dom.extent)
    return getattr(extent, "value", None)
