"""A rule for products of 16-bit floats: warps multiply tiles on tensor cores.

TVM's auto-scheduler has nothing of the kind. What a warp computes, and which loops its threads
have, is what `autotune.lowering.tensor_cores` asks for.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import ClassVar

from autotune.auto_scheduler.loops import Iterator
from autotune.auto_scheduler.reads import reads_of
from autotune.auto_scheduler.sketch.facts import fusible_consumer, has_cache_write, is_tiled
from autotune.auto_scheduler.sketch.rule import Condition, Derived, SketchContext
from autotune.auto_scheduler.state import State
from autotune.auto_scheduler.transform_steps.loops import TENSOR_CORE
from autotune.ir import Cast, IterVar, Mul, ProducerLoad, Reduce, Var
from autotune.ir.structure import walk
from autotune.te.relation import extent_of
from autotune.te.tensor import ComputeOp, Operation

_DTYPES = ("float16", "bfloat16")
# Threads of a warp by rows and columns, neighbouring columns of one, steps of one instruction.
ROWS, COLUMNS, OWN, DEPTH = 8, 4, 8, 16
# The first architecture with these instructions, for both types.
_FIRST_ARCH = 80


@dataclass(frozen=True)
class Product:
    """A stage that is a matrix product: its axes by what they are.

    `turned` says of the operands with rows and with columns whether the reduction is not the index
    of neighbours in memory.
    """

    batch: tuple[IterVar, ...]
    row: IterVar
    column: IterVar
    reduction: IterVar
    turned: tuple[bool, bool]


def product_of(op: Operation) -> Product | None:
    """Returns the axes of a sum of products of 16-bit floats, in float32; None if it is none."""
    if not isinstance(op, ComputeOp) or len(op.reduce_axis) != 1 or len(op.axis) < 2:
        return None
    body = op.body[0]
    if not isinstance(body, Reduce) or len(op.body) != 1 or body.dtype != "float32":
        return None
    match body.sources:
        case (Mul(Cast(ProducerLoad() as a), Cast(ProducerLoad() as b)),):
            pass
        case _:
            return None
    dtypes = {a.tensor.dtype, b.tensor.dtype}
    if len(dtypes) != 1 or not dtypes <= set(_DTYPES) or a.tensor.op is b.tensor.op:
        return None
    used = [{n for i in each.indices for n in walk(i) if isinstance(n, Var)} for each in (a, b)]
    *batch, row, column = op.axis
    own = [{axis.var for axis in (row, column)} & each for each in used]
    (k,) = op.reduce_axis
    separate = {frozenset(each) for each in own} == {frozenset({row.var}), frozenset({column.var})}
    if not separate or any(k.var not in each for each in used):
        return None
    turned = [not any(n is k.var for n in walk(each.indices[-1])) for each in (a, b)]
    of_row, of_column = turned if own[0] == {row.var} else turned[::-1]
    return Product(tuple(batch), row, column, k, (of_row, of_column))


class TensorCores:
    """Let warps multiply tiles of 16-bit floats on tensor cores."""

    name: ClassVar[str] = "TensorCores"

    def condition(self, context: SketchContext, state: State, stage_id: int) -> Condition:
        """Returns whether a stage is a product that divides into tiles of warps."""
        stage = state.stages[stage_id]
        target = context.search_task.target
        if not context.is_gpu or is_tiled(stage):
            return Condition.PASS
        if has_cache_write(state, stage_id) or arch_of(target.arch) < _FIRST_ARCH:
            return Condition.PASS
        found = product_of(stage.op)
        if found is None or len(reads_of(stage.op)) != 2:
            return Condition.PASS
        axes = ((found.row, 2 * ROWS), (found.column, COLUMNS * OWN), (found.reduction, DEPTH))
        fits = all((extent_of(axis) or 1) % unit == 0 for axis, unit in axes)
        return Condition.APPLY if fits else Condition.PASS

    def apply(self, context: SketchContext, state: State, stage_id: int) -> Iterable[Derived]:
        """Tile the stage that takes the results over, and mark the nest that computes them."""
        new = state.copy()
        reader = fusible_consumer(context, state, stage_id)
        if reader is None:
            new.cache_write(stage_id, "local")
            reader = stage_id + 1
        lane = _tile(new, reader)
        k = new.stages[stage_id].iters[-1]
        chunk, step = new.split(stage_id, k, [DEPTH])
        outer, inner = new.split(stage_id, chunk, [None])
        data = [loop for loop in new.stages[stage_id].iters if loop not in (outer, inner, step)]
        new.reorder(stage_id, [*data[:-2], outer, inner, step, *data[-2:]])
        new.compute_at(stage_id, reader, lane)
        new.pragma(stage_id, step, TENSOR_CORE)
        return [(new, stage_id - 1)]


def _tile(state: State, stage_id: int) -> Iterator:
    """Tile rows and columns for blocks, virtual threads, warps and threads; return the last loop.

    Rows of a thread are 8 apart, those of its virtual threads; its columns are 8 neighbours.
    """
    *batch, row, column = state.stages[stage_id].iters
    rows, lane_row = state.split(stage_id, row, [ROWS])
    columns, lane_column, own = state.split(stage_id, column, [COLUMNS, OWN])
    tiles = [state.split(stage_id, loop, [None, None]) for loop in (rows, columns)]
    blocks, virtual, warps = ([each[level] for each in tiles] for level in range(3))
    order = [*batch, *blocks, *virtual, *warps, lane_row, lane_column, own]
    state.reorder(stage_id, order)
    bind_together(state, stage_id, [*batch, *blocks], "blockIdx.x")
    for loop in virtual:
        state.bind(stage_id, loop, "vthread")
    bind_together(state, stage_id, warps, "threadIdx.z")
    state.bind(stage_id, lane_row, "threadIdx.y")
    return state.bind(stage_id, lane_column, "threadIdx.x")


def bind_together(state: State, stage_id: int, loops: Sequence[Iterator], thread: str) -> None:
    """Bind loops, which become one, to a thread axis."""
    fused = state.fuse(stage_id, loops) if len(loops) > 1 else loops[0]
    state.bind(stage_id, fused, thread)


def arch_of(arch: str | None) -> int:
    """Return the number of an architecture, 90 of ``sm_90a``; 0 where none is named."""
    digits = "".join(c for c in (arch or "") if c.isdigit())
    return int(digits or 0)
