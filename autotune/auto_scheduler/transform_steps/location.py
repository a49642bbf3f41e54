"""Steps that set where a stage is computed: in a loop of another, inlined, or on its own."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar

from autotune.auto_scheduler.states.attach_map import (
    attach_stage,
    attached_to,
    detach_stage,
    is_attached_within,
)
from autotune.auto_scheduler.states.loop_state import Readers, StateObject, TransformStep
from autotune.auto_scheduler.states.loops import ComputeAtKind, Stage
from autotune.auto_scheduler.states.refusal import refuse
from autotune.auto_scheduler.states.replay import Replay
from autotune.auto_scheduler.transform_steps.rows import whole


def _place(stage: Stage, kind: ComputeAtKind) -> Stage:
    """Return a stage computed elsewhere, where other ranges of its loops will be needed."""
    return replace(
        stage, compute_at=kind, iters=tuple([replace(each, range=None) for each in stage.iters])
    )


@dataclass(frozen=True)
class ComputeAtStep(TransformStep):
    """A stage is computed inside a loop of a stage that reads it."""

    tag: ClassVar[str] = "CA"
    reads: ClassVar[Readers] = (whole, whole, whole)
    target_stage_id: int
    target_iter_id: int

    def apply(self, state: StateObject) -> StateObject:
        """Attach the stage; the ranges of its loops follow when bounds are inferred."""
        stage = state.compute_stage(self)
        if self.target_stage_id == self.stage_id:
            raise refuse(self, "a stage cannot be computed at a loop of its own")
        target = state.stage(self, self.target_stage_id)
        if is_attached_within(state.attach, self.target_stage_id, self.stage_id):
            raise refuse(self, f"{target.name} is computed in a loop of {stage.name} itself")
        state.loop(self, target, self.target_iter_id)
        attach = attach_stage(
            state.attach, self.stage_id, self.target_stage_id, self.target_iter_id
        )
        return state.with_stage(self, _place(stage, ComputeAtKind.ITER), attach=attach)

    def making_room(self, at: int) -> TransformStep:
        """Return the step with the stages from a number on called by the next one each."""
        stage_id, target = (each + (each >= at) for each in (self.stage_id, self.target_stage_id))
        return replace(self, stage_id=stage_id, target_stage_id=target)

    def replay(self, on: Replay) -> None:
        """Attach the stage."""
        on.compute_at(self.stage_id, self.target_stage_id, self.target_iter_id)


@dataclass(frozen=True)
class ComputeInlineStep(TransformStep):
    """A stage is computed where it is read, element by element."""

    tag: ClassVar[str] = "CI"
    reads: ClassVar[Readers] = (whole,)

    def apply(self, state: StateObject) -> StateObject:
        """Inline the stage, at whose loops nothing may be attached."""
        stage = state.compute_stage(self)
        for attached in attached_to(state.attach, self.stage_id):
            raise refuse(
                self, f"{state.stages[attached].name} is computed at a loop of {stage.name}"
            )
        attach = detach_stage(state.attach, self.stage_id)
        return state.with_stage(
            self, replace(stage, compute_at=ComputeAtKind.INLINED), attach=attach
        )

    def replay(self, on: Replay) -> None:
        """Inline the stage."""
        on.compute_inline(self.stage_id)


@dataclass(frozen=True)
class ComputeRootStep(TransformStep):
    """A stage is computed in loops of its own."""

    tag: ClassVar[str] = "CR"
    reads: ClassVar[Readers] = (whole,)

    def apply(self, state: StateObject) -> StateObject:
        """Detach the stage."""
        stage = state.compute_stage(self)
        attach = detach_stage(state.attach, self.stage_id)
        return state.with_stage(self, _place(stage, ComputeAtKind.ROOT), attach=attach)

    def replay(self, on: Replay) -> None:
        """Detach the stage."""
        on.compute_root(self.stage_id)
