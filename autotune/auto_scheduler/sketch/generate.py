"""Generates the sketches of a task: all that the rules derive from its naive state."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from autotune.auto_scheduler.problem.search_problem import SearchProblem
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
from autotune.auto_scheduler.states.state import State
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
_MOST, _FIRST, _LONGEST = 4096, 64, 16


@dataclass(frozen=True, eq=False)
class _Begun:
    """A state on its way to a sketch.

    Attributes:
        state: what it has become.
        stage_id: the next stage to derive; negative when it is a sketch.
        chosen: which of several ways it went, by the names of rules and the numbers of results.
    """

    state: State
    stage_id: int
    chosen: tuple[tuple[str, int], ...] = ()


def generate_sketches(
    task: SearchProblem,
    params: Mapping[str, object] | None = None,
    custom_rules: Sequence[SketchRule] = (),
    policy: object = None,
    most: int | None = None,
) -> list[State]:
    """Returns the sketches of a task: states of open lengths, in the order of TVM.

    A graph of many products has as many sketches as all their alternatives multiply to.

    Args:
        task: what is searched.
        params: of a search policy; ``cpu_multi_level_tiling_structure`` and
            ``gpu_multi_level_tiling_structure`` count.
        custom_rules: stand before all others.
        policy: what custom rules are called with.
        most: how many are derived at most; of more, those are kept first that went the same ways
            at all stages, and others at random.

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
    found = _derive(context, rules, most, _MOST if custom_rules else None)
    return [open_lengths(state) for state in found]


def _derive(
    context: SketchContext, rules: Sequence[SketchRule], most: int | None, bound: int | None
) -> list[State]:
    """Returns what the rules derive, the shortest derivations first."""
    start = context.search_task.compute_dag.get_init_state()
    now, done = [_Begun(start, len(start.stages) - 1)], list[_Begun]()
    longest = _FIRST + _LONGEST * len(start.stages)
    for _ in range(longest):
        done += [each for each in now if each.stage_id < 0]
        now = [
            new for each in now if each.stage_id >= 0 for new in _following(context, rules, each)
        ]
        if bound is not None and len(now) > bound:
            raise _circles(f"over {bound} states are being derived")
        if most is not None and len(done) + len(now) > most:
            kept = _most_alike([*done, *now], most)
            done, now = [each for each in done if each in kept], [e for e in now if e in kept]
        if not now:
            return [each.state for each in done]
    raise _circles(f"no end after {longest} steps")


def _following(
    context: SketchContext, rules: Sequence[SketchRule], begun: _Begun
) -> Sequence[_Begun]:
    """Returns what rules make of a state at its stage."""
    found: list[tuple[str, int, Derived]] = []
    for rule in rules:
        fits = rule.condition(context, begun.state, begun.stage_id)
        if fits is not Condition.PASS:
            results = rule.apply(context, begun.state, begun.stage_id)
            found += [(rule.name, i, each) for i, each in enumerate(results)]
        if fits is Condition.APPLY_AND_SKIP_REST:
            break
    several = len(found) > 1
    return [
        _Begun(state, stage_id, (*begun.chosen, (name, i)) if several else begun.chosen)
        for name, i, (state, stage_id) in found
    ]


def _most_alike(begun: Sequence[_Begun], most: int) -> set[_Begun]:
    """Returns some of many states: those that went the fewest different ways, others at random."""
    chance = random.Random(0)
    return set(sorted(begun, key=lambda each: (len(set(each.chosen)), chance.random()))[:most])


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
