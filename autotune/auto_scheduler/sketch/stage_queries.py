"""Queries that sketch rules ask of a state: readers of a stage, its access pattern, its size."""

from __future__ import annotations

from collections.abc import Iterator as Iter
from math import prod

from autotune.auto_scheduler.graph.compute_graph import ComputeGraph
from autotune.auto_scheduler.graph.online import online_graph
from autotune.auto_scheduler.sketch.rule import SketchContext
from autotune.auto_scheduler.states.attach_map import attached_to
from autotune.auto_scheduler.states.loops import (
    Annotation,
    ComputeAtKind,
    Iterator,
    IterKind,
    Stage,
)
from autotune.auto_scheduler.states.state import State
from autotune.auto_scheduler.transform_steps import (
    CacheReadStep,
    CacheWriteStep,
    OnlineStep,
    RfactorStep,
    SplitStep,
    TransformStep,
)
from autotune.te.tensor import Operation

# Attribute of an operation that lists names of axes.
NO_SPLIT_AT_INNER = "auto_scheduler_no_split_at_inner"


def axis_names(stage: Stage, attribute: str) -> tuple[str, ...]:
    """Returns the names of axes that an attribute of a stage's operation lists."""
    value = stage.op.attrs.get(attribute, ())
    return (value,) if isinstance(value, str) else tuple(str(each) for each in value)


def original_names(name: str) -> set[str]:
    """Returns the names of the axes that a loop comes from."""
    return {part.split(".")[0] for part in name.split("@")} - {""}


# Who reads whom.


def _inlined(state: State) -> set[Operation]:
    return {each.op for each in state.stages if each.compute_at is ComputeAtKind.INLINED}


def consumers(context: SketchContext, state: State, stage_id: int) -> list[int]:
    """Returns the stages that read a stage, looking through inlined ones, in order."""
    found = context.access(state).consumers(state.stages[stage_id].op, _inlined(state))
    return sorted(state.stage_id(op) for op in found)


def producers(context: SketchContext, state: State, stage_id: int) -> list[int]:
    """Returns the stages that a stage reads, looking through inlined ones, in order."""
    found = context.access(state).producers(state.stages[stage_id].op, _inlined(state))
    return sorted(state.stage_id(op) for op in found)


def reads_directly(context: SketchContext, state: State, stage_id: int, source: int) -> bool:
    """Returns whether the body of a stage itself reads another one's first result.

    That is the one which caches hold, of operations that have several.
    """
    reader, read = state.stages[stage_id].op, state.stages[source].op
    direct = context.access(state).direct_producers(reader)
    return read in direct and read.outputs[0] in reader.input_tensors


def single_consumer(context: SketchContext, state: State, stage_id: int) -> int | None:
    """Returns the one stage that reads a stage, or the one that all readers are attached to."""
    reading = consumers(context, state, stage_id)
    if len(reading) == 1:
        return reading[0]
    attach = state.state_object.attach
    roots = {attach[each][0] if each in attach else each for each in reading}
    return roots.pop() if len(roots) == 1 else None


def fusible_consumer(context: SketchContext, state: State, stage_id: int) -> int | None:
    """Returns the one stage that reads a stage elementwise, so that tiles of both can agree.

    One that has been tiled already, with another stage that it reads, has tiles of its own.
    """
    reading = consumers(context, state, stage_id)
    if len(reading) != 1:
        return None
    stage, reader = state.stages[stage_id], state.stages[reading[0]]
    if is_tiled(reader) or has_reduction(reader) or reader.name.endswith(".shared"):
        return None
    matches = context.access(state).elementwise_match(stage.op, reader.op)
    return reading[0] if matches else None


def is_output(context: SketchContext, state: State, stage_id: int) -> bool:
    """Returns whether a stage is stored: nobody reads it, or it is an argument all the same.

    Other stages that steps make have other names, so of one name the order tells which is which.
    """
    if context.access(state).is_output(state.stages[stage_id].op):
        return True
    dag, name = _begun_graph(state), state.stages[stage_id].name
    number = [stage.name for stage in state.stages[:stage_id]].count(name)
    named = [op for op in dag.ops if op.name == name][number:]
    return bool(named) and any(tensor.op is named[0] for tensor in dag.tensors)


def _begun_graph(state: State) -> ComputeGraph:
    """Return the graph that steps other than an `OnlineStep` have changed."""
    dag = state.compute_dag
    match state.transform_steps[:1]:
        case [OnlineStep(stage_id, length, apart, tile, depth)] if found := online_graph(
            dag, stage_id, length, apart, tile, depth
        ):
            return found.graph
    return dag


def needs_tiling(context: SketchContext, state: State, stage_id: int) -> bool:
    """Returns whether a stage reads elements several times, so that tiles pay."""
    return context.access(state).needs_multi_level_tiling(state.stages[stage_id].op)


# What a stage looks like.


def has_reduction(stage: Stage) -> bool:
    """Returns whether a stage has a loop that is not over data."""
    return any(loop.iter_kind is not IterKind.SPATIAL for loop in stage.iters)


def is_tiled(stage: Stage) -> bool:
    """Returns whether loops of a stage have been split or fused."""
    return len(stage.iters) != len(stage.op.axis) + len(stage.op.reduce_axis)


def loops_of(stage: Stage, kind: IterKind) -> list[Iterator]:
    """Returns the loops of a stage of one kind."""
    return [loop for loop in stage.iters if loop.iter_kind is kind]


def sizes(stage: Stage) -> tuple[int, int]:
    """Returns the iterations over data and over reductions; unknown ones count once."""
    return (
        prod(loop.extent or 1 for loop in loops_of(stage, IterKind.SPATIAL)),
        prod(loop.extent or 1 for loop in loops_of(stage, IterKind.REDUCTION)),
    )


def is_cross_thread_reduced(state: State, stage_id: int) -> bool:
    """Returns whether threads of a block reduce a stage together, or one attached to it."""
    attached = attached_to(state.state_object.attach, stage_id)
    return any(_reduced_by_threads(state.stages[each]) for each in (stage_id, *attached))


def _reduced_by_threads(stage: Stage) -> bool:
    return any(
        loop.annotation is Annotation.THREAD_X and loop.iter_kind is IterKind.REDUCTION
        for loop in stage.iters
    )


# What was done to a stage.


def steps_on(state: State, stage_id: int) -> Iter[tuple[int, TransformStep]]:
    """Yields the steps on a stage from the last to the first, with their places."""
    at = stage_id
    steps = state.transform_steps
    for place in range(len(steps) - 1, -1, -1):
        step = steps[place]
        if step.stage_id == at:
            yield place, step
        if step.adds_stage and at > step.stage_id:
            at -= 1


def has_cache_write(state: State, stage_id: int) -> bool:
    """Returns whether a stage is a cache that another one copies from."""
    return any(isinstance(step, CacheWriteStep) for _, step in steps_on(state, stage_id))


def has_cache_read(state: State, stage_id: int) -> bool:
    """Returns whether stages read a copy of a stage."""
    return any(isinstance(step, CacheReadStep) for _, step in steps_on(state, stage_id))


def has_rfactor(state: State, stage_id: int) -> bool:
    """Returns whether a stage is the first part of a factored reduction."""
    return any(isinstance(step, RfactorStep) for _, step in steps_on(state, stage_id))


def split_steps(state: State, stage_id: int) -> list[int]:
    """Returns the places of the splits of a stage, the last one first."""
    return [place for place, step in steps_on(state, stage_id) if isinstance(step, SplitStep)]


def is_untouched(state: State, stage_id: int) -> bool:
    """Returns whether nothing was done to a stage yet."""
    done = is_tiled(state.stages[stage_id]) or has_cache_write(state, stage_id)
    return not done and not has_rfactor(state, stage_id)
