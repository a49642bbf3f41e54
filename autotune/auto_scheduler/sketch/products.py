"""Matrix products among the stages of a state: what rules for tensor cores ask, and do, alike."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from autotune.auto_scheduler.loops import Iterator
from autotune.auto_scheduler.reads import reads_of
from autotune.auto_scheduler.sketch.facts import fusible_consumer, has_cache_write, is_tiled
from autotune.auto_scheduler.sketch.rule import SketchContext
from autotune.auto_scheduler.state import State
from autotune.ir import Call, Cast, IterVar, Mul, ProducerLoad, Reduce, Var
from autotune.ir.dtype import bits_of
from autotune.ir.structure import walk
from autotune.te import math as te_math
from autotune.te.relation import extent_of
from autotune.te.tensor import ComputeOp, Operation

_SHORT = ("float16", "bfloat16")
# Threads of a warp by rows and columns.
ROWS, COLUMNS = 8, 4
# Bytes of a row of the left operand of one instruction, of what is copied at once, and of rows in
# shared memory that ``wgmma`` reads.
_ROW_BYTES, _COPIED_BYTES, _PANEL_BYTES = 32, 16, 128


@dataclass(frozen=True)
class Product:
    """A stage that is a matrix product: its axes by what they are.

    `turned` says of the operands with rows and with columns whether the reduction is not the index
    of neighbours in memory; `dtype` is that of both, of which float32 is cut to TF32.
    """

    batch: tuple[IterVar, ...]
    row: IterVar
    column: IterVar
    reduction: IterVar
    operands: tuple[Operation, Operation]
    turned: tuple[bool, bool]
    dtype: str

    @property
    def item(self) -> int:
        """Bytes of an element of an operand."""
        return bits_of(self.dtype) // 8

    @property
    def depth(self) -> int:
        """Steps of the reduction of one instruction."""
        return _ROW_BYTES // self.item

    @property
    def vector(self) -> int:
        """Elements that are copied at once."""
        return _COPIED_BYTES // self.item

    @property
    def panel(self) -> int:
        """Elements of a row in shared memory that ``wgmma`` reads."""
        return _PANEL_BYTES // self.item

    def is_turned(self, operand: Operation) -> bool:
        """Return whether the reduction is not the index of an operand's neighbours."""
        return self.turned[self.operands.index(operand)]

    def divides(self, rows: int, columns: int, steps: int) -> bool:
        """Return whether extents are multiples of such a tile."""
        axes = ((self.row, rows), (self.column, columns), (self.reduction, steps))
        return all((extent_of(axis) or 1) % unit == 0 for axis, unit in axes)


def product_of(op: Operation) -> Product | None:
    """Returns the axes of a sum, in float32, of products for tensor cores; None if it is none."""
    if not isinstance(op, ComputeOp) or len(op.reduce_axis) != 1 or len(op.axis) < 2:
        return None
    body = op.body[0]
    if not isinstance(body, Reduce) or len(op.body) != 1 or body.dtype != "float32":
        return None
    pair = _factors(body)
    if pair is None:
        return None
    used = [{n for i in each.indices for n in walk(i) if isinstance(n, Var)} for each in pair]
    *batch, row, column = op.axis
    own = [{axis.var for axis in (row, column)} & each for each in used]
    (k,) = op.reduce_axis
    separate = {frozenset(each) for each in own} == {frozenset({row.var}), frozenset({column.var})}
    if not separate or any(k.var not in each for each in used):
        return None
    a, b = pair if own[0] == {row.var} else pair[::-1]
    turned = [not any(n is k.var for n in walk(each.indices[-1])) for each in (a, b)]
    operands = (a.tensor.op, b.tensor.op)
    return Product(tuple(batch), row, column, k, operands, (turned[0], turned[1]), a.tensor.dtype)


def _factors(body: Reduce) -> tuple[ProducerLoad, ProducerLoad] | None:
    """Return what a sum multiplies, if that are 16-bit floats, or floats that are cut to TF32."""
    match body.sources:
        case (Mul(Cast(ProducerLoad() as a), Cast(ProducerLoad() as b)),):
            dtypes: tuple[str, ...] = _SHORT
        case (
            Mul(
                Call(te_math.TF32, (ProducerLoad() as a,)),
                Call(te_math.TF32, (ProducerLoad() as b,)),
            ),
        ):
            dtypes = ("float32",)
        case _:
            return None
    if a.tensor.dtype != b.tensor.dtype or a.tensor.dtype not in dtypes:
        return None
    return None if a.tensor.op is b.tensor.op else (a, b)


def untiled_product(context: SketchContext, state: State, stage_id: int) -> Product | None:
    """Returns the product that a stage is for a GPU, if nothing was done to it yet."""
    stage = state.stages[stage_id]
    if not context.is_gpu or is_tiled(stage) or has_cache_write(state, stage_id):
        return None
    return product_of(stage.op) if len(reads_of(stage.op)) == 2 else None


def multiply_in_tiles(
    context: SketchContext, state: State, stage_id: int, tile: Callable[[State, int], Iterator]
) -> tuple[State, Iterator, Iterator]:
    """Tiles the stage that takes the results of a product over, and hangs the product there.

    Args:
        context: of the rule.
        state: left as it is.
        stage_id: of the product.
        tile: tiles a stage and returns the loop at which products hang.

    Returns:
        The new state, and of the product the loop over instructions and that over their steps.
    """
    found = product_of(state.stages[stage_id].op)
    assert found is not None
    new = state.copy()
    reader = fusible_consumer(context, state, stage_id)
    if reader is None:
        new.cache_write(stage_id, "local")
        reader = stage_id + 1
    lane = tile(new, reader)
    k = new.stages[stage_id].iters[-1]
    chunk, step = new.split(stage_id, k, [found.depth])
    outer, inner = new.split(stage_id, chunk, [None])
    data = [loop for loop in new.stages[stage_id].iters if loop not in (outer, inner, step)]
    new.reorder(stage_id, [*data[:-2], outer, inner, step, *data[-2:]])
    new.compute_at(stage_id, reader, lane)
    return new, inner, step


def bind_together(state: State, stage_id: int, loops: Sequence[Iterator], thread: str) -> Iterator:
    """Bind loops, which become one, to a thread axis; return that one."""
    fused = state.fuse(stage_id, loops) if len(loops) > 1 else loops[0]
    return state.bind(stage_id, fused, thread)


def arch_of(context: SketchContext) -> int:
    """Return the number of the architecture of a target, 90 of ``sm_90a``; 0 if none is named."""
    arch = context.search_task.target.arch
    digits = "".join(c for c in (arch or "") if c.isdigit())
    return int(digits or 0)
