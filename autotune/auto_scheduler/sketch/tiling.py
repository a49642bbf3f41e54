"""Rules that tile a stage at several levels, alone or with the stage that reads it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import ClassVar

from autotune.auto_scheduler.graph.reads import CONSTANT_INDICES
from autotune.auto_scheduler.sketch.rule import Condition, Derived, SketchContext
from autotune.auto_scheduler.sketch.stage_queries import (
    NO_SPLIT_AT_INNER,
    axis_names,
    fusible_consumer,
    has_cache_write,
    needs_tiling,
    original_names,
)
from autotune.auto_scheduler.states.loops import Annotation, Iterator, IterKind
from autotune.auto_scheduler.states.state import State

# After how many levels of data tiles the stage that reads takes over.
_CPU_FUSION, _GPU_FUSION = (1, 2), (3,)


def tile(state: State, stage_id: int, structure: str, lanes: str = "") -> list[int]:
    """Split and order the loops of a stage into levels of tiles whose lengths are open.

    Args:
        state: is changed.
        stage_id: of the stage.
        structure: letters S and R, one a level, outermost first, such as ``SSRSRS``.
        lanes: the axis whose loop is the innermost; by default the last.

    Returns:
        The numbers of the steps that split data axes, in the order of these.
    """
    stage = state.stages[stage_id]
    whole = axis_names(stage, NO_SPLIT_AT_INNER)
    kinds = {"S": IterKind.SPATIAL, "R": IterKind.REDUCTION}
    levels: dict[str, list[list[Iterator]]] = {
        letter: [[] for _ in range(structure.count(letter))] for letter in kinds
    }
    inner: dict[str, list[Iterator]] = {letter: [] for letter in kinds}
    splits = []
    for loop in stage.iters:
        letter = "S" if loop.iter_kind is IterKind.SPATIAL else "R"
        if loop.name in whole:
            inner[letter].append(loop)
            continue
        parts = _parts(state, stage_id, loop, len(levels[letter]))
        if letter == "S" and len(parts) > 1:
            splits.append(len(state.transform_steps) - 1)
        for level, part in zip(levels[letter], parts, strict=True):
            level.append(part)
    for letter, loops in inner.items():
        levels[letter][-1][:0] = loops
    levels["S"][-1].sort(key=lambda loop: lanes in original_names(loop.name))
    counts = {letter: iter(levels[letter]) for letter in kinds}
    order = [part for letter in structure for part in next(counts[letter])]
    state.reorder(stage_id, order)
    return splits


def _parts(state: State, stage_id: int, loop: Iterator, count: int) -> Sequence[Iterator]:
    if count == 1:
        return [loop]
    return state.split(stage_id, loop, [None] * (count - 1))


def follow(state: State, stage_id: int, splits: Sequence[int], level: int) -> None:
    """Tile a stage as the one that it reads is tiled, down to some level of data tiles.

    Args:
        state: is changed.
        stage_id: of the reading stage.
        splits: the steps that split the data axes of the one it reads.
        level: how many lengths of each are followed.
    """
    stage = state.stages[stage_id]
    whole = axis_names(stage, NO_SPLIT_AT_INNER)
    levels: list[list[Iterator]] = [[] for _ in range(level + 1)]
    sources = iter(splits)
    for loop in stage.iters:
        if loop.name in whole:
            levels[-1].append(loop)
            continue
        parts = state.follow_split(stage_id, loop, next(sources), level)
        _keep_mark(state, stage_id, loop.annotation, parts)
        for each, part in zip(levels, parts, strict=True):
            each.append(part)
    state.reorder(stage_id, [part for each in levels for part in each])


def _keep_mark(state: State, stage_id: int, annotation: Annotation, parts: list[Iterator]) -> None:
    """Mark a part as the whole loop was: the outermost parallel, the innermost otherwise."""
    if annotation is Annotation.PARALLEL:
        parts[0] = state.parallel(stage_id, parts[0])
    elif annotation is Annotation.UNROLL:
        parts[-1] = state.unroll(stage_id, parts[-1])
    elif annotation is Annotation.VECTORIZE:
        parts[-1] = state.vectorize(stage_id, parts[-1])


class MultiLevelTiling:
    """Tile a stage that reads elements several times."""

    name: ClassVar[str] = "MultiLevelTiling"

    def condition(self, context: SketchContext, state: State, stage_id: int) -> Condition:
        """Returns whether tiles pay for the stage."""
        if needs_tiling(context, state, stage_id):
            return Condition.APPLY_AND_SKIP_REST
        return Condition.PASS

    def apply(self, context: SketchContext, state: State, stage_id: int) -> Iterable[Derived]:
        """Tile the stage."""
        new = state.copy()
        tile(new, stage_id, context.structure)
        return [(new, stage_id - 1)]


class MultiLevelTilingWithFusion:
    """Tile a stage, and compute it inside the tiles of the one stage that reads it elementwise."""

    name: ClassVar[str] = "MultiLevelTilingWithFusion"

    def condition(self, context: SketchContext, state: State, stage_id: int) -> Condition:
        """Returns whether tiles pay for the stage, and one stage reads it elementwise."""
        if not needs_tiling(context, state, stage_id):
            return Condition.PASS
        if fusible_consumer(context, state, stage_id) is None:
            return Condition.PASS
        if context.is_gpu or has_cache_write(state, stage_id):
            return Condition.APPLY_AND_SKIP_REST
        return Condition.APPLY

    def apply(self, context: SketchContext, state: State, stage_id: int) -> Iterable[Derived]:
        """Tile both stages, once for each level at which they can be joined."""
        return fused_at_levels(context, state, stage_id)


def fused_at_levels(
    context: SketchContext, state: State, stage_id: int, lanes: str = "", run: Sequence[int] = ()
) -> Iterable[Derived]:
    """Yields a stage in tiles with the one that reads it, joined at each level where they can be.

    ``lanes`` is the axis whose loop is the innermost; by default the last. The axes numbered in
    ``run`` become one loop first, in both stages.
    """
    reader = fusible_consumer(context, state, stage_id)
    assert reader is not None
    tiled = state.copy()
    if run:
        for each in (stage_id, reader):
            tiled.fuse(each, [tiled.stages[each].iters[i] for i in run])
    splits = tile(tiled, stage_id, context.structure, lanes)
    for level in _GPU_FUSION if context.is_gpu else _CPU_FUSION:
        if level > len(context.structure) or context.structure[level - 1] != "S":
            continue
        new = tiled.copy()
        follow(new, reader, splits, level)
        new.compute_at(stage_id, reader, new.stages[reader].iters[level * len(splits) - 1])
        yield new, stage_id - 1


class SimplifyConstTensor:
    """Unroll the loops over constant matrices, so that their elements become numbers."""

    name: ClassVar[str] = "SimplifyComputeWithConstTensor"

    def condition(self, context: SketchContext, state: State, stage_id: int) -> Condition:
        """Returns whether the operation names axes that index constant matrices."""
        del context
        if CONSTANT_INDICES in state.stages[stage_id].op.attrs:
            return Condition.APPLY_AND_SKIP_REST
        return Condition.PASS

    def apply(self, context: SketchContext, state: State, stage_id: int) -> Iterable[Derived]:
        """Unroll these axes, and tile the others in two levels around them."""
        del context
        new = state.copy()
        stage = state.stages[stage_id]
        names = axis_names(stage, CONSTANT_INDICES)
        unrolled, outer, inner = [], [], []
        for loop in stage.iters:
            if loop.name in names or loop.iter_kind is not IterKind.SPATIAL:
                unrolled.append(new.unroll(stage_id, loop))
                continue
            first, second = new.split(stage_id, loop, [None])
            outer.append(first)
            inner.append(second)
        new.reorder(stage_id, [*outer, *inner, *unrolled])
        return [(new, stage_id - 1)]
