"""Rules for long reductions: by the threads of a block together, or in two parts."""

from __future__ import annotations

from collections.abc import Iterable
from typing import ClassVar

from autotune.auto_scheduler.sketch.rule import Condition, Derived, SketchContext
from autotune.auto_scheduler.sketch.stage_queries import (
    has_cache_write,
    has_reduction,
    loops_of,
    needs_tiling,
    single_consumer,
    sizes,
    split_steps,
)
from autotune.auto_scheduler.states.loops import Iterator, IterKind
from autotune.auto_scheduler.states.state import State


def fuse_reductions(state: State, stage_id: int) -> Iterator:
    """Make one loop of all reductions of a stage; the state is changed."""
    loops = loops_of(state.stages[stage_id], IterKind.REDUCTION)
    return loops[0] if len(loops) == 1 else state.fuse(stage_id, loops)


class CrossThreadReduction:
    """Let the threads of a block reduce together where there is too little else to share out."""

    name: ClassVar[str] = "CrossThreadReduction"

    def condition(self, context: SketchContext, state: State, stage_id: int) -> Condition:
        """Returns whether the reduction is long beside the data, or beside a warp."""
        stage = state.stages[stage_id]
        if has_cache_write(state, stage_id) or not loops_of(stage, IterKind.REDUCTION):
            return Condition.PASS
        data, reduced = sizes(stage)
        params = context.search_task.hardware_params
        if needs_tiling(context, state, stage_id):
            fits = data <= params.max_threads_per_block and data < reduced
        else:
            fits = reduced > max(params.warp_size, 1)
        return Condition.APPLY if fits else Condition.PASS

    def apply(self, context: SketchContext, state: State, stage_id: int) -> Iterable[Derived]:
        """Bind a part of the reduction to threads, in the kernel of its reader if that fits."""
        new = state.copy()
        fused = fuse_reductions(new, stage_id)
        warp = context.search_task.hardware_params.warp_size
        reader = _kernel(context, new, stage_id)
        if reader is None:
            _, inner = new.split(stage_id, fused, [warp])
            new.bind(stage_id, inner, "threadIdx.x")
            return [(new, stage_id - 1)]
        source, common = _source(context, new, stage_id, reader)
        _, inner = new.follow_split(stage_id, fused, source, 1)
        new.bind(stage_id, inner, "threadIdx.x")
        new.compute_at(stage_id, reader, new.stages[reader].iters[common - 1])
        return [(new, stage_id - 1)]


def joins_kernel(context: SketchContext, state: State, stage_id: int, reader: int) -> bool:
    """Returns whether threads reduce a stage together in the kernel of one that reads it."""
    condition = CrossThreadReduction().condition(context, state, stage_id)
    return condition is Condition.APPLY and _kernel(context, state, stage_id) == reader


def _kernel(context: SketchContext, state: State, stage_id: int) -> int | None:
    """Returns the reader in whose kernel a reduction can be computed, row by row."""
    reader = single_consumer(context, state, stage_id)
    if reader is None or needs_tiling(context, state, reader):
        return None
    if state.stages[reader].name.endswith(".shared"):
        return None  # threads copy an element each, so none of them could share a sum
    if _common(context, state, stage_id, reader) < 1:
        return None
    splits = split_steps(state, reader)
    stage = state.stages[reader]
    if len(splits) == 1 or (not splits and stage.iters and not has_reduction(stage)):
        return reader
    return None


def _common(context: SketchContext, state: State, stage_id: int, reader: int) -> int:
    access = context.access(state)
    stages = state.stages
    return access.num_common_outer_iterators(stages[stage_id].op, stages[reader].op)


def _source(context: SketchContext, state: State, stage_id: int, reader: int) -> tuple[int, int]:
    """Returns the split that sets the number of threads, and how many loops are in common.

    A reader that has none yet gets one of its last loop.
    """
    common = _common(context, state, stage_id, reader)
    splits = split_steps(state, reader)
    if splits:
        return splits[0], common
    warp = context.search_task.hardware_params.warp_size
    _, inner = state.split(reader, state.stages[reader].iters[-1], [warp])
    state.bind(reader, inner, "threadIdx.x")
    return len(state.transform_steps) - 2, common


class Rfactor:
    """Reduce in two where there is too little else to share out to the cores of a CPU."""

    name: ClassVar[str] = "AddRfactor"

    def condition(self, context: SketchContext, state: State, stage_id: int) -> Condition:
        """Returns whether the reduction is long beside the data, or beside the cores."""
        stage = state.stages[stage_id]
        if has_cache_write(state, stage_id) or not loops_of(stage, IterKind.REDUCTION):
            return Condition.PASS
        data, reduced = sizes(stage)
        cores = context.search_task.hardware_params.num_cores
        if needs_tiling(context, state, stage_id):
            fits = data <= reduced and data <= 16 * cores
        else:
            fits = reduced > max(cores, 1)
        return Condition.APPLY if fits else Condition.PASS

    def apply(self, context: SketchContext, state: State, stage_id: int) -> Iterable[Derived]:
        """Factor out the outer part, or the inner one, which then stands innermost."""
        base = state.copy()
        data = len(loops_of(base.stages[stage_id], IterKind.SPATIAL))
        fused = fuse_reductions(base, stage_id)
        # The length is opened again when the sketch is whole; graphs need some number.
        parts = base.split(stage_id, fused, [1])
        for part in parts:
            new = base.copy()
            new.rfactor(stage_id, part, data)
            if part is parts[1]:
                loops = list(new.stages[stage_id].iters)
                new.reorder(stage_id, [*loops[:data], *loops[data + 1 :], loops[data]])
            yield new, stage_id - 1
