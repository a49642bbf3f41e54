"""Applies recorded steps to a schedule."""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial

from autotune.errors import ScheduleError
from autotune.ir import IterVar
from autotune.te import step as steps
from autotune.te.intrinsics import thread_axis
from autotune.te.reindex import groups_of
from autotune.te.schedule import Outputs, Schedule, create_schedule
from autotune.te.stage import Stage
from autotune.te.step import Step


def replay(ops: Outputs, recorded: Iterable[Step]) -> Schedule:
    """Returns the schedule that taking steps on the plain schedule of ``ops`` gives.

    Raises:
        ScheduleError: a step does not fit the graph, or has open factors; the message says which.
    """
    schedule = create_schedule(ops)
    for step in recorded:
        take_step(step, schedule)
    return schedule


def take_step(step: Step, schedule: Schedule) -> None:
    """Takes one step on a schedule by calling the primitive that records it."""
    if isinstance(step, steps.Normalize):
        schedule.inline_now()
        return
    stage = _stage(step, schedule)
    if not _taken_by_graph(step, schedule, stage) and not _taken_by_stage(step, schedule, stage):
        raise ScheduleError(f"{step}: {type(step).__name__} is no step that can be taken")


def _stage(step: Step, schedule: Schedule, key: str | None = None) -> Stage:
    try:
        return schedule.stage_by_key(step.stage if key is None else key)
    except ScheduleError as error:
        raise ScheduleError(f"{step}: {error}") from None


def _leaf(step: Step, stage: Stage, position: int) -> IterVar:
    if position >= len(stage.leaf_iter_vars):
        raise ScheduleError(f"{step}: {stage.name} has only {len(stage.leaf_iter_vars)} axes")
    return stage.leaf_iter_vars[position]


def _taken_by_graph(step: Step, schedule: Schedule, stage: Stage) -> bool:
    """Takes a step that adds a stage; returns whether it is one."""
    outputs = list(stage.op.outputs)
    match step:
        case steps.CacheRead():
            readers = [_stage(step, schedule, key).op for key in step.readers]
            schedule.cache_read(outputs[step.output], step.scope, readers)
        case steps.Permute():
            readers = [_stage(step, schedule, key).op for key in step.readers]
            schedule.permute(outputs[step.output], readers, step.order)
        case steps.Reindex():
            reader = _stage(step, schedule, step.reader).op
            schedule.reindex(outputs[step.output], reader, groups_of(step.groups))
        case steps.CacheWriteParts():
            schedule.cache_write(outputs, step.scope, (step.dimension, step.length))
        case steps.CacheWrite():
            schedule.cache_write(outputs, step.scope)
        case steps.Rfactor():
            schedule.rfactor(outputs[0], _leaf(step, stage, step.axis), step.factor_axis)
        case _:
            return False
    return True


def _taken_by_stage(step: Step, schedule: Schedule, stage: Stage) -> bool:
    """Takes a step that changes loops, place or memory of a stage; returns whether it is one."""
    match step:
        case steps.ComputeAt():
            target = _stage(step, schedule, step.target)
            stage.compute_at(target, _leaf(step, target, step.axis))
        case steps.ComputeInline():
            stage.compute_inline()
        case steps.ComputeRoot():
            stage.compute_root()
        case steps.StorageAlign():
            stage.storage_align(stage.op.axis[step.dimension], step.factor, step.offset)
        case steps.DoubleBuffer():
            stage.double_buffer()
        case steps.AsyncCopies():
            stage.async_copy(step.stages)
        case steps.SetScope():
            stage.set_scope(step.scope)
        case steps.SetStorePredicate():
            stage.set_store_predicate(stage.read_condition(step.condition))
        case _:
            return _taken_by_loops(step, stage)
    return True


def _taken_by_loops(step: Step, stage: Stage) -> bool:
    leaf = partial(_leaf, step, stage)
    match step:
        case steps.Split():
            if step.is_open:
                raise ScheduleError(f"{step}: it has open factors; Split.fill returns one without")
            known = [factor for factor in step.factors if factor is not None]
            stage.multi_split(leaf(step.axis), known, step.from_inner)
        case steps.Fuse():
            stage.fuse(*map(leaf, step.axes))
        case steps.Reorder():
            stage.reorder(*map(leaf, step.axes))
        case steps.Bind():
            stage.bind(leaf(step.axis), thread_axis(step.extent or None, step.thread))
        case steps.Unroll():
            stage.unroll(leaf(step.axis))
        case steps.Vectorize():
            stage.vectorize(leaf(step.axis))
        case steps.Parallel():
            stage.parallel(leaf(step.axis))
        case steps.Pragma():
            stage.pragma(leaf(step.axis), step.key, step.value)
        case _:
            return False
    return True
