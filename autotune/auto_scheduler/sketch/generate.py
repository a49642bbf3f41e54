"""Sketches of a task: all that the rules derive from its plain state."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from autotune.auto_scheduler.search_problem import SearchProblem
from autotune.auto_scheduler.sketch.caches import CacheRead, CacheWrite
from autotune.auto_scheduler.sketch.inline import AlwaysInline, Skip, SpecialComputeLocation
from autotune.auto_scheduler.sketch.reductions import CrossThreadReduction, Rfactor
from autotune.auto_scheduler.sketch.rule import (
    CPU_STRUCTURE,
    GPU_STRUCTURE,
    Condition,
    Derived,
    SketchContext,
    SketchRule,
    is_gpu,
)
from autotune.auto_scheduler.sketch.tiling import (
    MultiLevelTiling,
    MultiLevelTilingWithFusion,
    SimplifyConstTensor,
)
from autotune.auto_scheduler.state import State
from autotune.auto_scheduler.transform_steps import RfactorStep, SplitStep, TransformStep
from autotune.errors import TunerError

# The order is TVM's, and decides about what comes out.
GPU_RULES: tuple[SketchRule, ...] = (
    CacheRead(),
    SpecialComputeLocation(),
    AlwaysInline(),
    SimplifyConstTensor(),
    CrossThreadReduction(),
    CacheWrite(),
    MultiLevelTilingWithFusion(),
    MultiLevelTiling(),
    Skip(),
)
CPU_RULES: tuple[SketchRule, ...] = (
    AlwaysInline(),
    SimplifyConstTensor(),
    Rfactor(),
    CacheWrite(),
    MultiLevelTilingWithFusion(),
    MultiLevelTiling(),
    Skip(),
)
# More sketches than this, or longer derivations, come only of a rule that goes round in circles.
_MOST, _LONGEST = 4096, 1024


def generate_sketches(
    task: SearchProblem,
    params: Mapping[str, object] | None = None,
    custom_rules: Sequence[SketchRule] = (),
    policy: object = None,
) -> list[State]:
    """Returns the sketches of a task: states of open lengths, in the order of TVM.

    Args:
        task: what is searched.
        params: of a search policy; ``cpu_multi_level_tiling_structure`` and
            ``gpu_multi_level_tiling_structure`` count.
        custom_rules: stand before all others.
        policy: what custom rules are called with.

    Raises:
        TunerError: a structure has other letters than S and R, or a rule never comes to an end.
    """
    given = params or {}
    context = SketchContext(
        task,
        _structure(given.get("cpu_multi_level_tiling_structure", CPU_STRUCTURE)),
        _structure(given.get("gpu_multi_level_tiling_structure", GPU_STRUCTURE)),
        policy,
    )
    rules = (*custom_rules, *(GPU_RULES if is_gpu(task) else CPU_RULES))
    return [open_lengths(state) for state in _derive(context, rules)]


def _derive(context: SketchContext, rules: Sequence[SketchRule]) -> list[State]:
    """Returns what the rules derive, the shortest derivations first."""
    start = context.search_task.compute_dag.get_init_state()
    now = [(start, len(start.stages) - 1)]
    done: list[State] = []
    for _ in range(_LONGEST):
        if not now:
            return done
        following: list[Derived] = []
        for state, stage_id in now:
            if stage_id < 0:
                done.append(state)
                continue
            for rule in rules:
                fits = rule.condition(context, state, stage_id)
                if fits is not Condition.PASS:
                    following += rule.apply(context, state, stage_id)
                if fits is Condition.APPLY_AND_SKIP_REST:
                    break
        if len(following) > _MOST:
            raise _circles(f"over {_MOST} states are being derived")
        now = following
    raise _circles(f"no end after {_LONGEST} steps")


def _circles(what: str) -> TunerError:
    return TunerError(
        f"sketches: {what}; a rule has to go on to an earlier stage, or to a state that it does "
        "not fit any more"
    )


def open_lengths(state: State) -> State:
    """Returns a sketch with the lengths open by which reductions are factored."""
    steps: list[TransformStep] = list(state.transform_steps)
    for place, step in enumerate(steps):
        before = steps[place - 1] if place else None
        if isinstance(step, RfactorStep) and isinstance(before, SplitStep):
            steps[place - 1] = replace(before, lengths=(None,))
    if tuple(steps) == state.transform_steps:
        return state
    return state.with_object(
        replace(state.state_object, transform_steps=tuple(steps), concrete=False)
    )


def _structure(text: object) -> str:
    """Returns a tiling structure in capital letters."""
    if not isinstance(text, str) or set(text.upper()) != {"S", "R"}:
        raise TunerError(
            f"a tiling structure is a text of S and R such as {GPU_STRUCTURE!r}, got {text!r}"
        )
    return text.upper()
