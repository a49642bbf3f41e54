"""A rule for operands of products that depend on sums of their rows, such as a softmax.

Inlined they would be computed as tiles are copied, anew for each tile of columns, and each sum of
rows would be a kernel that reads all elements. One kernel does both while a block has the row
(`sketch.reductions`), and stores operands as the product copies them best.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import ClassVar

from autotune.auto_scheduler.sketch.inline import should_inline
from autotune.auto_scheduler.sketch.reductions import joins_kernel
from autotune.auto_scheduler.sketch.rule import Condition, Derived, SketchContext
from autotune.auto_scheduler.sketch.stage_queries import consumers, producers
from autotune.auto_scheduler.states.state import State


class StoreOperand:
    """Store an operand of a product on tensor cores that depends on sums of its rows."""

    name: ClassVar[str] = "StoreOperand"

    def condition(self, context: SketchContext, state: State, stage_id: int) -> Condition:
        """Returns whether a product reads the stage, which reads a sum of each of its rows."""
        if not context.is_gpu or not should_inline(context, state, stage_id):
            return Condition.PASS
        reading = consumers(context, state, stage_id)
        if not reading or not all(_is_operand(state, each) for each in reading):
            return Condition.PASS
        alone = with_inlined_producers(context, state, stage_id)
        found = producers(context, alone, stage_id)
        fits = any(joins_kernel(context, alone, each, stage_id) for each in found)
        return Condition.APPLY_AND_SKIP_REST if fits else Condition.PASS

    def apply(self, context: SketchContext, state: State, stage_id: int) -> Iterable[Derived]:
        """Leave the stage as it is: what it reads may be computed at its rows."""
        del context
        return [(state, stage_id - 1)]


def _is_operand(state: State, stage_id: int) -> bool:
    """Return whether a stage copies tiles for a product on tensor cores to shared memory."""
    place = state.state_object.attach.get(stage_id)
    return place is not None and bool(state.stages[place[0]].attrs.tensor_core)


def with_inlined_producers(context: SketchContext, state: State, stage_id: int) -> State:
    """Returns a state in which what a stage reads, and may be inlined, is."""
    new = state.copy()
    while cheap := [
        each for each in producers(context, new, stage_id) if should_inline(context, new, each)
    ]:
        for each in cheap:
            new.compute_inline(each)
    return new
