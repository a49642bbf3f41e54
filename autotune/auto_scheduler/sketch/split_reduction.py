"""A rule for long sums of few results: blocks sum parts, and a second kernel adds the parts.

Without it a small output leaves most of a GPU idle; TVM's rules have nothing of the kind. In the
libraries it is called split-K (CUTLASS, "Efficient GEMM in CUDA").
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import ClassVar

from autotune.auto_scheduler.sketch.rule import Condition, Derived, SketchContext
from autotune.auto_scheduler.sketch.stage_queries import (
    consumers,
    has_cache_write,
    has_reduction,
    has_rfactor,
    loops_of,
    needs_tiling,
    sizes,
)
from autotune.auto_scheduler.states.loops import Iterator, IterKind, Stage
from autotune.auto_scheduler.states.state import State

# More results than this fill a GPU without splitting their sums; shorter sums are not worth it.
_MOST_RESULTS, _SHORTEST = 2**20, 128


class SplitAcrossBlocks:
    """Let blocks reduce a part each, and another kernel reduce what they found."""

    name: ClassVar[str] = "SplitAcrossBlocks"

    def condition(self, context: SketchContext, state: State, stage_id: int) -> Condition:
        """Returns whether there are few results of long reductions."""
        stage = state.stages[stage_id]
        if not context.is_gpu or not needs_tiling(context, state, stage_id):
            return Condition.PASS
        if has_cache_write(state, stage_id) or has_rfactor(state, stage_id):
            return Condition.PASS
        return Condition.APPLY if has_few_long_sums(stage) else Condition.PASS

    def apply(self, context: SketchContext, state: State, stage_id: int) -> Iterable[Derived]:
        """Factor the longest reduction out; the partial sums are reduced where they are read."""
        return [(summed_in_parts(context, state, stage_id), stage_id)]


def has_few_long_sums(stage: Stage) -> bool:
    """Returns whether there are few results of long reductions."""
    results, reduced = sizes(stage)
    return results <= _MOST_RESULTS and reduced >= _SHORTEST


def summed_in_parts(context: SketchContext, state: State, stage_id: int, length: int = 1) -> State:
    """Returns a state in which a stage sums parts of its longest reduction, which others add.

    Args:
        context: of the rule.
        state: left as it is.
        stage_id: of the stage, and then of the parts.
        length: of the parts of that reduction, until it is decided.
    """
    new = state.copy()
    outer, _ = new.split(stage_id, longest_reduction(new.stages[stage_id]), [length])
    new.rfactor(stage_id, outer, 0)
    attach_to_reader(context, new, stage_id + 1)
    return new


def attach_to_reader(context: SketchContext, state: State, stage_id: int) -> None:
    """Compute a stage where the one stage reads it that does so elementwise, if there is one."""
    reader = _reader(context, state, stage_id)
    if reader is not None:
        state.compute_at(stage_id, reader, state.stages[reader].iters[-1])


def longest_reduction(stage: Stage) -> Iterator:
    """Returns the longest loop over a reduction of a stage."""
    return max(loops_of(stage, IterKind.REDUCTION), key=lambda loop: loop.extent or 0)


def _reader(context: SketchContext, state: State, stage_id: int) -> int | None:
    """Returns the one stage that reads the sums elementwise, one loop an axis."""
    reading = consumers(context, state, stage_id)
    if len(reading) != 1 or has_reduction(state.stages[reading[0]]):
        return None
    reader = state.stages[reading[0]]
    plain = len(reader.iters) == len(reader.op.axis) > 0
    matches = context.access(state).elementwise_match(state.stages[stage_id].op, reader.op)
    return reading[0] if plain and matches else None
