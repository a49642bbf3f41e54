"""Sums on tensor cores of lengths that tiles do not divide, which run on over zeros.

All threads of a warp have to take part in an instruction, so no condition can end a sum within
a tile. Where operands end with the sum, copies of them in shared memory hold zeros from there on,
which add nothing.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace

from autotune.ir.analysis_affine import Affine
from autotune.ir.base import const
from autotune.ir.expr import Expr, IfThenElse, IterVar, Reduce
from autotune.lowering.bodies import BodySimplifier, reads_of
from autotune.lowering.extents import Extent, as_form
from autotune.lowering.plan import Body
from autotune.lowering.shared_work import reads_own_block
from autotune.te.relation import SplitRelation
from autotune.te.stage import Stage
from autotune.te.tensor import ComputeOp


def axes_of_operands(
    simplifier: BodySimplifier,
    stage: Stage,
    body: Body,
    values: Mapping[IterVar, Affine],
    extents: Mapping[IterVar, Extent],
    kept: Collection[Stage],
) -> frozenset[IterVar]:
    """Return the axes of a sum that end with its operands: beyond these they can be zero.

    Each operand has to have a dimension that is the steps of the sum, and ends with them, and the
    block of the sum has to copy it. Outer parts of the axis end where it does or behind; beyond
    the end of an inner part that is split again are the steps of the next one.

    Args:
        simplifier: of the lowering.
        stage: that sums up.
        body: of the stage.
        values: of all its axes.
        extents: of these.
        kept: the stages whose result the caller gets.
    """
    splits = [each for each in stage.relations if isinstance(each, SplitRelation)]
    parts = {part for each in splits for part in (each.outer, each.inner)}
    whole = [s.parent for s in splits if s.parent.kind == "reduce" and s.parent not in parts]
    if len(whole) != 1 or not reads_own_block(simplifier, body, kept):
        return frozenset()
    steps, extent = values[whole[0]].key, extents[whole[0]]
    for load in reads_of(body):
        op = load.tensor.op
        if not isinstance(op, ComputeOp) or isinstance(op.body[0], Reduce):
            return frozenset()  # what is stored of a sum has no other value
        sides = zip(load.indices, load.tensor.shape, strict=True)
        if not any(simplifier.form_of(i).key == steps and _is(n, extent) for i, n in sides):
            return frozenset()
    ending = set(whole)
    for split in splits:
        if split.parent in ending:
            ending.add(split.outer)
    return frozenset(ending)


def zero_beyond(simplifier: BodySimplifier, body: Body, edges: Sequence[Expr]) -> Body:
    """Return the body of an operand that is zero where conditions do not hold."""
    inside = simplifier.conjunction(list(edges))
    values = [IfThenElse.fold(inside, v, const(0, v.dtype)) for v in body.values]
    return replace(body, values=tuple(values))


def _is(size: object, extent: Extent) -> bool:
    return isinstance(size, int) and as_form(extent).key == as_form(size).key
