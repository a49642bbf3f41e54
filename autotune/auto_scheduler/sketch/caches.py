"""Rules that add caches: shared copies of what is read, local tiles of what is written."""

from __future__ import annotations

from collections.abc import Iterable
from typing import ClassVar

from autotune.auto_scheduler.sketch.rule import Condition, Derived, SketchContext
from autotune.auto_scheduler.sketch.stage_queries import (
    NO_SPLIT_AT_INNER,
    axis_names,
    consumers,
    fusible_consumer,
    is_cross_thread_reduced,
    is_tiled,
    loops_of,
    needs_tiling,
    original_names,
    reads_directly,
)
from autotune.auto_scheduler.states.loops import Iterator, IterKind, Stage
from autotune.auto_scheduler.states.state import State


class CacheRead:
    """Let the threads of a block fetch what they read into shared memory, tile by tile."""

    name: ClassVar[str] = "AddCacheRead"

    def condition(self, context: SketchContext, state: State, stage_id: int) -> Condition:
        """Returns whether stages of tiles read the stage."""
        readers = readers_in_tiles(context, state, stage_id)
        return Condition.APPLY_AND_SKIP_REST if readers else Condition.PASS

    def apply(self, context: SketchContext, state: State, stage_id: int) -> Iterable[Derived]:
        """Insert a copy for each such reader, at the end of its outermost tile of reductions."""
        new = state.copy()
        for count, reader in enumerate(readers_in_tiles(context, state, stage_id)):
            at = reader + count
            new.cache_read(stage_id, "shared", [at])
            new.compute_at(stage_id + 1, at + 1, reduce_tile_end(new.stages[at + 1]))
        return [(new, stage_id)]


def readers_in_tiles(context: SketchContext, state: State, stage_id: int) -> list[int]:
    """Returns the stages in tiles that read a stage; others read it where it is."""
    return [
        each
        for each in consumers(context, state, stage_id)
        if reads_directly(context, state, each, stage_id)
        and needs_tiling(context, state, each)
        and (is_tiled(state.stages[each]) or state.stages[each].attrs.tensor_core)
        and not is_cross_thread_reduced(state, each)
        # Without a loop over a reduction there is none in which tiles would be used again.
        and loops_of(state.stages[each], IterKind.REDUCTION)
    ]


def reduce_tile_end(stage: Stage) -> Iterator:
    """Returns the last loop of the outermost level of a stage's tiles of reductions."""
    reductions = loops_of(stage, IterKind.REDUCTION)
    whole = axis_names(stage, NO_SPLIT_AT_INNER)
    wanted = {loop for axis in stage.op.reduce_axis for loop in [axis.name] if loop not in whole}
    seen: set[str] = set()
    for loop in reductions:
        seen |= original_names(loop.name) - set(whole)
        if len(seen) == len(wanted):
            return loop
    return reductions[0]


class CacheWrite:
    """Keep the tile of a stage in registers where no other stage takes it over."""

    name: ClassVar[str] = "AddCacheWrite"

    def condition(self, context: SketchContext, state: State, stage_id: int) -> Condition:
        """Returns whether tiles pay for the stage, and it has no elementwise reader."""
        if not needs_tiling(context, state, stage_id):
            return Condition.PASS
        if fusible_consumer(context, state, stage_id) is not None:
            return Condition.PASS
        return Condition.APPLY_AND_SKIP_REST if context.is_gpu else Condition.APPLY

    def apply(self, context: SketchContext, state: State, stage_id: int) -> Iterable[Derived]:
        """Insert the cache, which is then tiled with the copy as its reader."""
        del context
        new = state.copy()
        new.cache_write(stage_id, "local")
        return [(new, stage_id)]
