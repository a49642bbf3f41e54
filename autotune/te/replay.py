"""Applies recorded steps to a schedule."""

from __future__ import annotations

from collections.abc import Iterable
from functools import singledispatch

from autotune.errors import ScheduleError
from autotune.ir import IterVar
from autotune.te import step as steps
from autotune.te.intrinsics import thread_axis
from autotune.te.reindex import groups_of
from autotune.te.schedule import Outputs, Schedule, create_schedule
from autotune.te.stage import Stage
from autotune.te.step import Step
from autotune.te.tensor_intrin import intrin_by_key


def replay(ops: Outputs, recorded: Iterable[Step]) -> Schedule:
    """Returns the schedule that taking steps on the plain schedule of ``ops`` gives.

    Raises:
        ScheduleError: a step does not fit the graph, or has open factors; the message says which.
    """
    schedule = create_schedule(ops)
    for step in recorded:
        take_step(step, schedule)
    return schedule


@singledispatch
def take_step(step: Step, schedule: Schedule) -> None:
    """Takes one step on a schedule by calling the primitive that records it."""
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


@take_step.register
def _split(step: steps.Split, schedule: Schedule) -> None:
    stage = _stage(step, schedule)
    known = [factor for factor in step.factors if factor is not None]
    if step.is_open:
        raise ScheduleError(f"{step}: it has open factors; Split.fill returns one without")
    stage.multi_split(_leaf(step, stage, step.axis), known, step.from_inner)


@take_step.register
def _fuse(step: steps.Fuse, schedule: Schedule) -> None:
    stage = _stage(step, schedule)
    stage.fuse(*[_leaf(step, stage, i) for i in step.axes])


@take_step.register
def _reorder(step: steps.Reorder, schedule: Schedule) -> None:
    stage = _stage(step, schedule)
    stage.reorder(*[_leaf(step, stage, i) for i in step.axes])


@take_step.register
def _bind(step: steps.Bind, schedule: Schedule) -> None:
    stage = _stage(step, schedule)
    stage.bind(_leaf(step, stage, step.axis), thread_axis(step.extent or None, step.thread))


@take_step.register
def _unroll(step: steps.Unroll, schedule: Schedule) -> None:
    stage = _stage(step, schedule)
    stage.unroll(_leaf(step, stage, step.axis))


@take_step.register
def _tensorize(step: steps.Tensorize, schedule: Schedule) -> None:
    stage = _stage(step, schedule)
    stage.tensorize(_leaf(step, stage, step.axis), intrin_by_key(step.intrin))


@take_step.register
def _prefetch(step: steps.Prefetch, schedule: Schedule) -> None:
    stage = _stage(step, schedule)
    tensor = _stage(step, schedule, step.source).op.outputs[step.output]
    stage.prefetch(tensor, _leaf(step, stage, step.axis), step.offset)


@take_step.register
def _vectorize(step: steps.Vectorize, schedule: Schedule) -> None:
    stage = _stage(step, schedule)
    stage.vectorize(_leaf(step, stage, step.axis))


@take_step.register
def _parallel(step: steps.Parallel, schedule: Schedule) -> None:
    stage = _stage(step, schedule)
    stage.parallel(_leaf(step, stage, step.axis))


@take_step.register
def _pragma(step: steps.Pragma, schedule: Schedule) -> None:
    stage = _stage(step, schedule)
    stage.pragma(_leaf(step, stage, step.axis), step.key, step.value)


@take_step.register
def _compute_at(step: steps.ComputeAt, schedule: Schedule) -> None:
    target = _stage(step, schedule, step.target)
    _stage(step, schedule).compute_at(target, _leaf(step, target, step.axis))


@take_step.register
def _compute_inline(step: steps.ComputeInline, schedule: Schedule) -> None:
    _stage(step, schedule).compute_inline()


@take_step.register
def _compute_root(step: steps.ComputeRoot, schedule: Schedule) -> None:
    _stage(step, schedule).compute_root()


@take_step.register
def _cache_read(step: steps.CacheRead, schedule: Schedule) -> None:
    outputs = _stage(step, schedule).op.outputs
    readers = [_stage(step, schedule, key).op for key in step.readers]
    schedule.cache_read(outputs[step.output], step.scope, readers)


@take_step.register
def _reindex(step: steps.Reindex, schedule: Schedule) -> None:
    outputs = _stage(step, schedule).op.outputs
    reader = _stage(step, schedule, step.reader).op
    schedule.reindex(outputs[step.output], reader, groups_of(step.groups))


@take_step.register
def _permute(step: steps.Permute, schedule: Schedule) -> None:
    outputs = _stage(step, schedule).op.outputs
    readers = [_stage(step, schedule, key).op for key in step.readers]
    schedule.permute(outputs[step.output], readers, step.order)


@take_step.register
def _cache_write(step: steps.CacheWrite, schedule: Schedule) -> None:
    schedule.cache_write(list(_stage(step, schedule).op.outputs), step.scope)


@take_step.register
def _cache_write_parts(step: steps.CacheWriteParts, schedule: Schedule) -> None:
    parts = step.dimension, step.length
    schedule.cache_write(list(_stage(step, schedule).op.outputs), step.scope, parts)


@take_step.register
def _cache_write_phases(step: steps.CacheWritePhases, schedule: Schedule) -> None:
    schedule.phases(_stage(step, schedule).op.outputs[0], step.scope)


@take_step.register
def _cache_write_wide(step: steps.CacheWriteWide, schedule: Schedule) -> None:
    schedule.widen(_stage(step, schedule).op.outputs[0], step.scope)


@take_step.register
def _rfactor(step: steps.Rfactor, schedule: Schedule) -> None:
    stage = _stage(step, schedule)
    axis = _leaf(step, stage, step.axis)
    schedule.rfactor(stage.op.outputs[0], axis, step.factor_axis)


@take_step.register
def _storage_align(step: steps.StorageAlign, schedule: Schedule) -> None:
    stage = _stage(step, schedule)
    stage.storage_align(stage.op.axis[step.dimension], step.factor, step.offset)


@take_step.register
def _double_buffer(step: steps.DoubleBuffer, schedule: Schedule) -> None:
    _stage(step, schedule).double_buffer()


@take_step.register
def _async_copies(step: steps.AsyncCopies, schedule: Schedule) -> None:
    _stage(step, schedule).async_copy(step.stages)


@take_step.register
def _set_scope(step: steps.SetScope, schedule: Schedule) -> None:
    _stage(step, schedule).set_scope(step.scope)


@take_step.register
def _set_store_predicate(step: steps.SetStorePredicate, schedule: Schedule) -> None:
    stage = _stage(step, schedule)
    stage.set_store_predicate(stage.read_condition(step.condition))


@take_step.register
def _env_threads(step: steps.EnvThreads, schedule: Schedule) -> None:
    pairs = zip(step.extents, step.threads, strict=True)
    _stage(step, schedule).env_threads([thread_axis(extent, tag) for extent, tag in pairs])


@take_step.register
def _normalize(step: steps.Normalize, schedule: Schedule) -> None:
    schedule.inline_now()
