"""Steps that add a stage: caches that are read or written, and factored reductions."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar

from autotune.auto_scheduler.states.attach_map import attached_to
from autotune.auto_scheduler.states.loop_state import Readers, StateObject, TransformStep
from autotune.auto_scheduler.states.loops import IterKind, stage_of
from autotune.auto_scheduler.states.refusal import refuse
from autotune.auto_scheduler.states.replay import Replay
from autotune.auto_scheduler.states.stage_ops import ops_after
from autotune.auto_scheduler.transform_steps.rows import text, whole, wholes


@dataclass(frozen=True)
class CacheReadStep(TransformStep):
    """Some stages read a copy of a stage's result; the copy is the stage after it."""

    tag: ClassVar[str] = "CHR"
    reads: ClassVar[Readers] = (whole, text, wholes)
    adds_stage: ClassVar[bool] = True
    scope_name: str
    reader_stage_ids: tuple[int, ...]

    def apply(self, state: StateObject) -> StateObject:
        """Insert the copy."""
        state.stage(self, self.stage_id)
        for reader in self.reader_stage_ids:
            state.stage(self, reader)
        added = self.stage_id + 1
        ops = ops_after(state.dag, (*state.transform_steps, self))
        return state.with_added_stage(self, added, ops, {added: stage_of(ops[added])})

    def making_room(self, at: int) -> TransformStep:
        """Return the step with the stages from a number on called by the next one each."""
        readers = tuple([each + (each >= at) for each in self.reader_stage_ids])
        stage_id = self.stage_id + (self.stage_id >= at)
        return replace(self, stage_id=stage_id, reader_stage_ids=readers)

    def replay(self, on: Replay) -> None:
        """Insert the copy."""
        on.cache_read(self.stage_id, self.scope_name, self.reader_stage_ids)


@dataclass(frozen=True)
class CacheWriteStep(TransformStep):
    """A stage computes in a cache, which takes its number, and copies from that."""

    tag: ClassVar[str] = "CHW"
    reads: ClassVar[Readers] = (whole, text)
    adds_stage: ClassVar[bool] = True
    scope_name: str

    def apply(self, state: StateObject) -> StateObject:
        """Insert the cache; the stage becomes a copy with loops of its own."""
        stage, at = state.compute_stage(self), self.stage_id
        plain = [(each.name, each.annotation) for each in stage_of(stage.op).iters]
        changed = [(each.name, each.annotation) for each in stage.iters] != plain
        if changed or attached_to(state.attach, at):
            raise refuse(self, f"it has to come before all steps on loops of {stage.name}")
        ops = ops_after(state.dag, (*state.transform_steps, self))
        new = {at: stage_of(ops[at]), at + 1: stage_of(ops[at + 1])}
        for i, earlier in enumerate(state.stages[:at]):
            # A sum in phases changes what it reads.
            if ops[i].outputs[0].shape != earlier.op.outputs[0].shape:
                new[i] = stage_of(ops[i])
        return state.with_added_stage(self, at, ops, new)

    def replay(self, on: Replay) -> None:
        """Insert the cache."""
        on.cache_write(self.stage_id, self.scope_name)


@dataclass(frozen=True)
class RfactorStep(TransformStep):
    """A reduction was done in two; the first one takes the stage's number.

    ``factor_iter_id`` is the place of the factored loop among the loops of the first one.
    """

    tag: ClassVar[str] = "RF"
    reads: ClassVar[Readers] = (whole, whole, whole)
    adds_stage: ClassVar[bool] = True
    iter_id: int
    factor_iter_id: int

    def apply(self, state: StateObject) -> StateObject:
        """Insert the first reduction; the stage reduces what that leaves."""
        stage = state.compute_stage(self)
        loop = state.loop(self, stage, self.iter_id)
        if loop.iter_kind is not IterKind.REDUCTION:
            raise refuse(self, f"loop {loop.name} of {stage.name} is no reduction")
        at = self.stage_id
        if attached_to(state.attach, at):
            raise refuse(self, f"stages are computed in loops of {stage.name}, which loses them")
        ops = ops_after(state.dag, (*state.transform_steps, self))
        rest = replace(stage_of(ops[at + 1]), compute_at=stage.compute_at)
        return state.with_added_stage(self, at, ops, {at: stage_of(ops[at]), at + 1: rest})

    def replay(self, on: Replay) -> None:
        """Factor the reduction."""
        on.rfactor(self.stage_id, self.iter_id, self.factor_iter_id)
