"""The questions about states that TVM asks across its language border; here plain functions."""

from __future__ import annotations

from autotune.auto_scheduler.problem.search_problem import SearchProblem
from autotune.auto_scheduler.records.codec import decode_task, encode_task
from autotune.auto_scheduler.search_task import SearchTask
from autotune.auto_scheduler.sketch import stage_queries
from autotune.auto_scheduler.sketch.rule import SketchContext
from autotune.auto_scheduler.states.loop_state import StateObject
from autotune.auto_scheduler.states.loops import Stage
from autotune.auto_scheduler.states.state import State


def SearchPolicyUtilsIsTiled(stage: Stage) -> bool:
    """Return whether loops of a stage have been split or fused."""
    return stage_queries.is_tiled(stage)


def SearchPolicyUtilsHasCacheReadStage(state: State | StateObject, stage_id: int) -> bool:
    """Return whether stages read a copy of a stage."""
    return stage_queries.has_cache_read(_state(state), stage_id)


def SearchPolicyUtilsHasCacheWriteStage(state: State | StateObject, stage_id: int) -> bool:
    """Return whether a stage is a cache that another one copies from."""
    return stage_queries.has_cache_write(_state(state), stage_id)


def SearchPolicyUtilsHasRfactorStage(state: State | StateObject, stage_id: int) -> bool:
    """Return whether a stage is the first part of a factored reduction."""
    return stage_queries.has_rfactor(_state(state), stage_id)


def SearchPolicyUtilsHasCrossThreadReduction(state: State | StateObject, stage_id: int) -> bool:
    """Return whether threads of a block reduce a stage together, or one attached to it."""
    return stage_queries.is_cross_thread_reduced(_state(state), stage_id)


class Consumers(dict[int, int]):
    """Numbers of stages, each by itself; as TVM's maps it lists its items."""

    def items(self) -> list[tuple[int, int]]:  # type: ignore[override]
        """Return pairs of a number and itself."""
        return [(each, each) for each in self]


def SearchPolicyUtilsGetConsumers(
    task: SearchProblem, state: State | StateObject, stage_id: int
) -> Consumers:
    """Return the stages that read a stage, looking through inlined ones."""
    found = stage_queries.consumers(SketchContext(task), _state(state), stage_id)
    return Consumers({each: each for each in found})


def SearchPolicyUtilsIsElementwiseMatch(
    task: SearchProblem, state: State | StateObject, stage_id: int, target_stage_id: int
) -> bool:
    """Return whether a stage reads another one elementwise, by a chain of single readers."""
    of, context = _state(state), SketchContext(task)
    access = context.access(of)
    return access.elementwise_match(of.stages[stage_id].op, of.stages[target_stage_id].op)


def SerializeSearchTask(task: SearchProblem) -> str:
    """Return a task as it stands in a record."""
    return encode_task(task)


def DeserializeSearchTask(json_string: str) -> SearchTask:
    """Return the task of a part of a record; its workload has to be registered."""
    return decode_task(json_string).recovered(SearchTask)


def _state(state: State | StateObject) -> State:
    return state if isinstance(state, State) else State(state)
