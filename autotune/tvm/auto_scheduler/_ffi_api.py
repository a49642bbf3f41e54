"""The questions about states that TVM asks across its language border; here plain functions."""

from __future__ import annotations

from autotune.auto_scheduler.loop_state import StateObject
from autotune.auto_scheduler.loops import Stage
from autotune.auto_scheduler.sketch import facts
from autotune.auto_scheduler.state import State


def SearchPolicyUtilsIsTiled(stage: Stage) -> bool:
    """Return whether loops of a stage have been split or fused."""
    return facts.is_tiled(stage)


def SearchPolicyUtilsHasCacheReadStage(state: State | StateObject, stage_id: int) -> bool:
    """Return whether stages read a copy of a stage."""
    return facts.has_cache_read(_state(state), stage_id)


def SearchPolicyUtilsHasCacheWriteStage(state: State | StateObject, stage_id: int) -> bool:
    """Return whether a stage is a cache that another one copies from."""
    return facts.has_cache_write(_state(state), stage_id)


def SearchPolicyUtilsHasRfactorStage(state: State | StateObject, stage_id: int) -> bool:
    """Return whether a stage is the first part of a factored reduction."""
    return facts.has_rfactor(_state(state), stage_id)


def SearchPolicyUtilsHasCrossThreadReduction(state: State | StateObject, stage_id: int) -> bool:
    """Return whether threads of a block reduce a stage together, or one that hangs at it."""
    return facts.is_cross_thread_reduced(_state(state), stage_id)


def _state(state: State | StateObject) -> State:
    return state if isinstance(state, State) else State(state)
