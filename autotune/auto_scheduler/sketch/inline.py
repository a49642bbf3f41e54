"""Rules for stages that are inlined, or computed at the loop that reads them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import ClassVar

from autotune.auto_scheduler.graph.reads import CONSTANT_INDICES
from autotune.auto_scheduler.sketch.rule import Condition, Derived, SketchContext
from autotune.auto_scheduler.sketch.stage_queries import (
    consumers,
    has_reduction,
    is_output,
    producers,
)
from autotune.auto_scheduler.states.loops import Annotation
from autotune.auto_scheduler.states.state import State


def should_inline(context: SketchContext, state: State, stage_id: int) -> bool:
    """Returns whether a stage is computed anew at each read: always on a GPU, else if cheap."""
    stage = state.stages[stage_id]
    if not stage.is_compute or is_output(context, state, stage_id) or has_reduction(stage):
        return False
    return context.is_gpu or context.access(state).is_strictly_inlineable(stage.op)


class AlwaysInline:
    """Inline what is cheap to compute, and on a GPU everything that does not reduce."""

    name: ClassVar[str] = "AlwaysInline"

    def condition(self, context: SketchContext, state: State, stage_id: int) -> Condition:
        """Returns whether the stage is to be inlined."""
        if should_inline(context, state, stage_id):
            return Condition.APPLY_AND_SKIP_REST
        return Condition.PASS

    def apply(self, context: SketchContext, state: State, stage_id: int) -> Iterable[Derived]:
        """Inline the stage."""
        del context
        new = state.copy()
        new.compute_inline(stage_id)
        return [(new, stage_id - 1)]


class SpecialComputeLocation:
    """Compute what a stage with constant matrices reads just outside its unrolled loops."""

    name: ClassVar[str] = "SpecialComputeLocationGPU"

    def condition(self, context: SketchContext, state: State, stage_id: int) -> Condition:
        """Returns whether only a stage with constant matrices reads this one."""
        if not producers(context, state, stage_id):
            return Condition.PASS
        if not should_inline(context, state, stage_id):
            return Condition.PASS
        reading = consumers(context, state, stage_id)
        if len(reading) == 1 and _place(state, reading[0]) is not None:
            return Condition.APPLY_AND_SKIP_REST
        return Condition.PASS

    def apply(self, context: SketchContext, state: State, stage_id: int) -> Iterable[Derived]:
        """Attach the stage to the loop before the first unrolled one."""
        (reader,) = consumers(context, state, stage_id)
        place = _place(state, reader)
        assert place is not None
        new = state.copy()
        new.compute_at(stage_id, reader, state.stages[reader].iters[place])
        return [(new, stage_id - 1)]


def _place(state: State, reader: int) -> int | None:
    """Returns the loop before the first unrolled one of a stage with constant matrices."""
    stage = state.stages[reader]
    if CONSTANT_INDICES not in stage.op.attrs:
        return None
    for place, loop in enumerate(stage.iters):
        if loop.annotation is Annotation.UNROLL:
            return place - 1 if place else None
    return None


class Skip:
    """Leave a stage as it is."""

    name: ClassVar[str] = "SkipStage"

    def condition(self, context: SketchContext, state: State, stage_id: int) -> Condition:
        """Always fits."""
        return Condition.APPLY

    def apply(self, context: SketchContext, state: State, stage_id: int) -> Iterable[Derived]:
        """Go on with the stage before."""
        return [(state, stage_id - 1)]
