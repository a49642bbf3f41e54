"""A rule for transposed convolutions, and other sums over tensors with zeros between elements.

Such a sum is computed in a cache that has a dimension for the phases of its results, each of which
has a sum of its own over what is not zero (`Schedule.phases`). With tiles of it that are joined
with the stage that takes the results over, whose loops are split into the same phases.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import ClassVar

from autotune.auto_scheduler.graph.reads import reads_of
from autotune.auto_scheduler.sketch.parts import Groups, in_cache_of_parts, split_in_parts
from autotune.auto_scheduler.sketch.products import product_of
from autotune.auto_scheduler.sketch.rule import Condition, Derived, SketchContext
from autotune.auto_scheduler.sketch.split_reduction import has_few_long_sums, longest_reduction
from autotune.auto_scheduler.sketch.stage_queries import (
    consumers,
    is_output,
    is_untouched,
    needs_tiling,
)
from autotune.auto_scheduler.sketch.tiling import follow, tile
from autotune.auto_scheduler.states.replay import phases_scope, view_scope
from autotune.auto_scheduler.states.state import State
from autotune.auto_scheduler.transform_steps.loops import TENSOR_CORE
from autotune.ir import Expr, IntImm, Mul, Reduce
from autotune.ir.structure import variables, walk
from autotune.te.phases import Phases, phases_of
from autotune.te.tensor import ComputeOp

# After how many levels of data tiles the stage that reads takes over.
_FUSION = 3


class SumInPhases:
    """Leave out terms that are zero as what is read has zeros between its elements."""

    name: ClassVar[str] = "SumInPhases"

    def condition(self, context: SketchContext, state: State, stage_id: int) -> Condition:
        """Returns whether a stage alone reads a tensor with zeros between its elements.

        What tensor cores can multiply with the zeros is left to other rules too.
        """
        if phases_in(context, state, stage_id) is None:
            return Condition.PASS
        op = state.stages[stage_id].op
        multiplied = product_of(op, TENSOR_CORE) is not None
        return Condition.APPLY if multiplied else Condition.APPLY_AND_SKIP_REST

    def apply(self, context: SketchContext, state: State, stage_id: int) -> Iterable[Derived]:
        """Sum in phases: in tiles that are joined with those of the stage that reads, or in parts.

        As elsewhere a second kernel adds the parts of long sums of few results.
        """
        found = phases_in(context, state, stage_id)
        assert found is not None
        whole, groups = sum_in_phases(context, state, stage_id, found)
        split_in_parts(whole, groups.reader, groups.parts)
        added = _with_views(whole, stage_id)
        stage_id, reader = stage_id + added, groups.reader + added
        if has_few_long_sums(whole.stages[stage_id]):
            parts = whole.copy()
            outer, _ = parts.split(stage_id, longest_reduction(parts.stages[stage_id]), [1])
            parts.rfactor(stage_id, outer, 0)
            parts.compute_at(stage_id + 1, reader + 1, parts.stages[reader + 1].iters[-1])
            yield parts, stage_id
        new = whole.copy()
        splits = tile(new, stage_id, context.structure)
        follow(new, reader, splits, _FUSION)
        last = new.stages[reader].iters[_FUSION * len(splits) - 1]
        new.compute_at(stage_id, reader, last)
        yield new, stage_id - 1


def phases_in(context: SketchContext, state: State, stage_id: int) -> Phases | None:
    """Returns what a stage reads with zeros between, if it alone does and nothing was done yet."""
    if not context.is_gpu or not needs_tiling(context, state, stage_id):
        return None
    if not is_untouched(state, stage_id):
        return None
    found = phases_of(state.stages[stage_id].op)
    if found is None:
        return None
    source = state.stage_id(found.tensor.op)
    alone = consumers(context, state, source) == [stage_id] and not is_output(
        context, state, source
    )
    return found if alone else None


def sum_in_phases(
    context: SketchContext, state: State, stage_id: int, found: Phases
) -> tuple[State, Groups]:
    """Returns a state in which a stage sums in phases, and what takes the results over."""
    strides = {phase.data: phase.stride for phase in found.phases}
    axes = enumerate(state.stages[stage_id].op.axis)
    parts = tuple([(i, strides[axis]) for i, axis in axes if axis in strides])
    return in_cache_of_parts(context, state, stage_id, phases_scope(), parts)


def _with_views(state: State, stage_id: int) -> int:
    """Read factors in the order of phases and terms; return how many stages were added.

    A tile of a view has just the elements that some phases need. Factors that are read where a
    condition holds have none.
    """
    op = state.stages[stage_id].op
    assert isinstance(op, ComputeOp)
    body = op.body[0]
    assert isinstance(body, Reduce)
    if not isinstance(body.condition, IntImm):
        return 0
    numbers = {axis.var: i for i, axis in enumerate((*op.axis, *op.reduce_axis))}
    added = 0
    for source, reads in reads_of(op).items():
        used = [variables(index) for index in reads[0]]
        flat = [var for each in used for var in each]
        if (
            not any(_strided(index) for index in reads[0])
            or len(reads) > 1
            or len(set(flat)) < len(flat)
            or not numbers.keys() >= set(flat)
        ):
            continue
        groups = [[numbers[var]] for var in flat]
        state.cache_read(state.stage_id(source), view_scope(groups), [stage_id + added])
        added += 1
    return added


def _strided(index: Expr) -> bool:
    """Return whether neighbours of an axis are not neighbours in memory."""
    return any(isinstance(node, Mul) for node in walk(index))
