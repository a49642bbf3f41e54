"""Products of several groups, such as grouped convolutions: one product for each group.

The image of such a convolution is read by the number of a filter's group alone, so the filters are
neither rows nor columns of one product. In a cache that has two dimensions for them, the number of
the group and the place in it (`Schedule.cache_write`), they are columns, and groups are a batch.
"""

from __future__ import annotations

from autotune.auto_scheduler.sketch.parts import Groups, in_cache_of_parts
from autotune.auto_scheduler.sketch.phases import phases_in, sum_in_phases
from autotune.auto_scheduler.sketch.products import multiplied, product_of
from autotune.auto_scheduler.sketch.rule import SketchContext
from autotune.auto_scheduler.sketch.stage_queries import is_untouched
from autotune.auto_scheduler.states.replay import parts_scope, wide_scope
from autotune.auto_scheduler.states.state import State
from autotune.ir import FloorDiv, IntImm, IterVar, ProducerLoad, TruncDiv
from autotune.ir.structure import walk
from autotune.te.relation import extent_of
from autotune.te.tensor import ComputeOp, Operation
from autotune.te.wide_sums import narrow_factors


def grouped(op: Operation) -> tuple[int, int] | None:
    """Returns the dimension in which groups are counted, and their length; None if there are none.

    One operand of a sum of products has to be read by the number of the group alone, as the image
    of a grouped convolution is.
    """
    pair = multiplied(op) if isinstance(op, ComputeOp) else None
    if pair is None:
        return None
    for i, axis in enumerate(op.axis):
        for load in pair:
            lengths = _lengths_of_groups(load, axis)
            extent = extent_of(axis) or 1
            if lengths is not None and len(lengths) == 1:
                (length,) = lengths
                if 1 < length < extent and extent % length == 0:
                    return i, length
    return None


def _lengths_of_groups(load: ProducerLoad, axis: IterVar) -> set[int] | None:
    """Return by what an axis is divided in a read; None if the axis itself is used."""
    nodes = list(walk(*load.indices))
    lengths = [
        node.b.value
        for node in nodes
        if isinstance(node, FloorDiv | TruncDiv)
        and node.a is axis.var
        and isinstance(node.b, IntImm)
    ]
    return set(lengths) if len(lengths) == nodes.count(axis.var) else None


def by_groups(
    context: SketchContext, state: State, stage_id: int, instructions: str, unit: int
) -> tuple[State, Groups | None]:
    """Returns a state in which groups of a product are a dimension of their own, if it has any.

    Tiles have to divide groups, or a thread would have results of two; others are left alone, and
    so is what is a product as it stands. Phases of a product are such groups too, whatever their
    lengths. Sums of 16-bit floats in their own type become sums in float32.

    Args:
        context: of the rule.
        state: left as it is.
        stage_id: of the product, before and after.
        instructions: that are to multiply.
        unit: what the length of groups has to be a multiple of.
    """
    if not context.is_gpu or not is_untouched(state, stage_id):
        return state, None
    new, groups = _in_parts(context, state, stage_id, instructions, unit)
    return _in_float32(context, new, stage_id, groups)


def _in_parts(
    context: SketchContext, state: State, stage_id: int, instructions: str, unit: int
) -> tuple[State, Groups | None]:
    """Return a state in which phases, or groups, of a product are a dimension of their own."""
    op = state.stages[stage_id].op
    phases = phases_in(context, state, stage_id)
    if phases is not None and phases.divide_terms and isinstance(op, ComputeOp) and multiplied(op):
        return sum_in_phases(context, state, stage_id, phases)
    found = grouped(op)
    if found is None or found[1] % unit or product_of(op, instructions) is not None:
        return state, None
    return in_cache_of_parts(context, state, stage_id, parts_scope(*found), (found,))


def _in_float32(
    context: SketchContext, state: State, stage_id: int, groups: Groups | None
) -> tuple[State, Groups | None]:
    """Return a state in which sums of 16-bit floats in their own type are in float32."""
    if narrow_factors(state.stages[stage_id].op) is None:
        return state, groups
    if groups is None:
        return in_cache_of_parts(context, state, stage_id, wide_scope(), ())[0], None
    new = state.copy()
    new.cache_write(stage_id, wide_scope())
    new.compute_inline(stage_id + 1)
    return new, groups.moved(1)
