"""A rule for stages that write along one axis and read along another: tiles in shared memory.

A warp that writes 32 neighbours of a transposed matrix reads as many rows of the other, 32 bytes
of each for 4. So a block copies a tile in the order of memory, and reads it transposed (Ruetsch
and Micikevicius, "Optimizing Matrix Transpose in CUDA", 2009). TVM's rules have nothing of the
kind.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import ClassVar

from autotune.auto_scheduler.graph.reads import reads_of
from autotune.auto_scheduler.sketch.product_tiles import bind_together
from autotune.auto_scheduler.sketch.rule import Condition, Derived, SketchContext
from autotune.auto_scheduler.sketch.stage_queries import has_reduction, is_tiled
from autotune.auto_scheduler.states.loops import Iterator
from autotune.auto_scheduler.states.state import State
from autotune.ir import Expr
from autotune.ir.structure import walk
from autotune.te.relation import extent_of
from autotune.te.tensor import ComputeOp, Operation

# Threads of a warp, and banks of shared memory.
_LANES = 32
# Elements of a tile along what is read, and along what is written; each makes a sketch.
TILES = ((32, 32), (64, 32), (32, 64), (64, 64))


@dataclass(frozen=True)
class TransposedRead:
    """A read of a source along another axis than that along which results are written.

    Attributes:
        source: the operation that is read.
        along: number of the axis along which it is contiguous.
        dimension: of the source, which the last axis indexes.
    """

    source: Operation
    along: int
    dimension: int


class TileTransposed:
    """Copy what is read transposed to shared memory, tile by tile, and read it from there."""

    name: ClassVar[str] = "TileTransposed"

    def condition(self, context: SketchContext, state: State, stage_id: int) -> Condition:
        """Returns whether a stage that reads nothing but inputs reads one of them transposed."""
        stage = state.stages[stage_id]
        if not context.is_gpu or is_tiled(stage) or has_reduction(stage):
            return Condition.PASS
        if any(each.is_compute for each in state.stages[:stage_id]):
            return Condition.PASS
        return Condition.PASS if transposed_read(stage.op) is None else Condition.APPLY

    def apply(self, context: SketchContext, state: State, stage_id: int) -> Iterable[Derived]:
        """Tile the stage, and attach a copy of each tile to it."""
        del context
        found = transposed_read(state.stages[stage_id].op)
        assert found is not None
        source = state.stage_id(found.source)
        for tile in TILES:
            new = state.copy()
            new.cache_read(source, "shared", [stage_id])
            block, split = _tile(new, stage_id + 1, found.along, tile)
            new.compute_at(source + 1, stage_id + 1, block)
            _copy(new, source + 1, found.dimension, split)
            yield new, -1  # nothing but inputs comes before


def transposed_read(op: Operation) -> TransposedRead | None:
    """Returns the first read of a source that is contiguous along another axis than the last.

    It has to be the only one of that source. Both axes have to fill a warp, and to be indices by
    themselves.
    """
    if not isinstance(op, ComputeOp) or len(op.axis) < 2:
        return None
    for source, reads in reads_of(op).items():
        if len(reads) == 1 and (found := _transposed(op, source, reads[0])) is not None:
            return found
    return None


def _transposed(
    op: ComputeOp, source: Operation, indices: tuple[Expr, ...]
) -> TransposedRead | None:
    last = op.axis[-1]
    used = list(walk(*indices))
    if last.var not in indices[:-1] or used.count(last.var) != 1:
        return None
    for i, axis in enumerate(op.axis[:-1]):
        wide = min(extent_of(axis) or 0, extent_of(last) or 0) >= _LANES
        if axis.var is indices[-1] and used.count(axis.var) == 1 and wide:
            return TransposedRead(source, i, list(indices).index(last.var))
    return None


def _tile(state: State, stage_id: int, along: int, tile: tuple[int, int]) -> tuple[Iterator, int]:
    """Tile a stage for blocks and threads; return the loop of blocks, and an open split.

    Left open is how many rows of threads there are; the split is known by the number of its step.
    """
    loops = list(state.stages[stage_id].iters)
    outer, several, inner = state.split(stage_id, loops[along], [tile[0] // _LANES, _LANES])
    serial, rows = state.split(stage_id, inner, [None])
    step = len(state.transform_steps) - 1
    columns, runs, lanes = state.split(stage_id, loops[-1], [tile[1] // _LANES, _LANES])
    blocks = [outer if i == along else loop for i, loop in enumerate(loops[:-1])]
    state.reorder(stage_id, [*blocks, columns, rows, lanes, several, serial, runs])
    block = bind_together(state, stage_id, [*blocks, columns], "blockIdx.x")
    state.bind(stage_id, rows, "threadIdx.y")
    state.bind(stage_id, lanes, "threadIdx.x")
    for loop in (several, serial, runs):
        state.unroll(stage_id, loop)
    return block, step


def _copy(state: State, stage_id: int, dimension: int, split: int) -> None:
    """Let the threads of a block copy a tile, whose rows are so long that banks differ."""
    loops = state.stages[stage_id].iters
    state.storage_align(stage_id, loops[dimension], _LANES, 1)
    fused = state.fuse(stage_id, list(state.stages[stage_id].iters))
    fused, lanes = state.split(stage_id, fused, [_LANES])
    fused, each = state.follow_fused_split(stage_id, fused, [split], 0, True)
    state.bind(stage_id, each, "threadIdx.y")
    state.bind(stage_id, lanes, "threadIdx.x")
    state.unroll(stage_id, fused)
