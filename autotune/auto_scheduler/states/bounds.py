"""Infers the extents of a state's loops from what each stage has to compute."""

from __future__ import annotations

from dataclasses import replace

from autotune.auto_scheduler.states.loop_state import StateObject
from autotune.auto_scheduler.states.loops import ComputeAtKind, IterRange, Stage, plain
from autotune.auto_scheduler.states.replay import Replay
from autotune.errors import LoweringError
from autotune.ir import IterVar, Range
from autotune.lowering import infer_bound as schedule_bounds


def infer_bound(state: StateObject) -> StateObject:
    """Return a state in which the loops of all stages that are not inlined have their ranges.

    Raises:
        ScheduleError: a length is not decided, or a step cannot be taken.
        LoweringError: a stage is attached where it cannot be computed.
    """
    replay = Replay(state.dag)
    for step in state.transform_steps:
        replay.take(step)
    schedule = replay.finish()
    bounds = schedule_bounds(schedule)
    stages = [
        _bounded(stage, axes, bounds)
        for stage, axes in zip(state.stages, replay.axes, strict=True)
    ]
    return replace(state, stages=tuple(stages))


def _bounded(stage: Stage, axes: list[IterVar], bounds: dict[IterVar, Range]) -> Stage:
    if not stage.is_compute or stage.compute_at is ComputeAtKind.INLINED:
        return stage
    if any(axis not in bounds for axis in axes):
        raise LoweringError(
            f"{stage.name} is computed nowhere: no stage that is computed reads it"
        )
    iters = []
    for loop, axis in zip(stage.iters, axes, strict=True):
        known = bounds[axis]
        found = IterRange(plain(known.min), plain(known.extent))
        iters.append(loop if loop.range == found else replace(loop, range=found))
    return replace(stage, iters=tuple(iters))
