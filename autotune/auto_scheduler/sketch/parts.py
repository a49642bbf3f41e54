"""Stages that compute in a cache which has two dimensions for some of theirs.

Such dimensions are groups of channels, or phases; loops over them are a stage's own in both.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from autotune.auto_scheduler.sketch.rule import SketchContext
from autotune.auto_scheduler.sketch.stage_queries import fusible_consumer
from autotune.auto_scheduler.states.state import State


@dataclass(frozen=True)
class Groups:
    """The stage that takes over the results of a product that has more dimensions.

    Attributes:
        reader: the stage that does.
        parts: its dimensions of which the product has two each, with the lengths of the second:
            groups of columns or rows, or phases.
    """

    reader: int
    parts: tuple[tuple[int, int], ...]

    def moved(self, stages: int) -> Groups:
        """Return the same where so many stages were added before."""
        return replace(self, reader=self.reader + stages)


def in_cache_of_parts(
    context: SketchContext,
    state: State,
    stage_id: int,
    scope: str,
    parts: tuple[tuple[int, int], ...],
) -> tuple[State, Groups]:
    """Returns a state in which a stage computes in a cache with two dimensions for some.

    Args:
        context: of the rule.
        state: left as it is.
        stage_id: of the stage, and then of the cache.
        scope: of the cache, which says so.
        parts: the dimensions, with the lengths of the second of each two.
    """
    new = state.copy()
    reader = fusible_consumer(context, state, stage_id)
    new.cache_write(stage_id, scope)
    if reader is None:
        return new, Groups(stage_id + 1, parts)
    # What reads the copy elementwise takes the results over itself.
    new.compute_inline(stage_id + 1)
    return new, Groups(reader + 1, parts)


def split_in_parts(state: State, stage_id: int, parts: Sequence[tuple[int, int]]) -> None:
    """Split loops of a stage, of data dimensions, by lengths."""
    loops = state.stages[stage_id].iters
    for dimension, length in parts:
        state.split(stage_id, loops[dimension], [length])
