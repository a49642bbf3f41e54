"""Matrix products among the stages of a state, as the rules for tensor cores see them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import prod
from operator import ge
from weakref import WeakKeyDictionary

from autotune.auto_scheduler.graph.reads import reads_of
from autotune.auto_scheduler.sketch.rule import SketchContext
from autotune.auto_scheduler.sketch.stage_queries import is_untouched
from autotune.auto_scheduler.states.state import State
from autotune.auto_scheduler.transform_steps.loops import TENSOR_CORE, WARPGROUPS, WGMMA_PASSED
from autotune.ir import (
    Call,
    Cast,
    IntImm,
    IterVar,
    Mul,
    Node,
    ProducerLoad,
    Reduce,
)
from autotune.ir.dtype import bits_of
from autotune.ir.structure import variables, walk
from autotune.te import math as te_math
from autotune.te.relation import extent_of
from autotune.te.tensor import ComputeOp, Operation
from autotune.utils.math import ceil_div

_SHORT = ("float16", "bfloat16")
# Threads of a warp by rows and columns.
ROWS, COLUMNS = 8, 4
# Bytes of a row of an instruction's left operand, of one copy, and of a row that ``wgmma`` reads.
_ROW_BYTES, _COPIED_BYTES, _PANEL_BYTES = 32, 16, 128
# Neighbouring columns of a thread, by the instructions: those of one row of an image.
OWN_COLUMNS = {TENSOR_CORE: 8, **dict.fromkeys(WARPGROUPS, 2)}
_TOGETHER = 8  # columns that one thread stores at once, or four
# What is known of operations, by the instructions; rules ask it of each again and again.
_PRODUCTS: WeakKeyDictionary[Operation, dict[str, Product | None]] = WeakKeyDictionary()


@dataclass(frozen=True)
class Product:
    """A stage that is a matrix product: its axes by what they are.

    Of a convolution the rows are places in all images, the columns filters, or the other way
    round, and the steps of the reduction those of the window by channels.

    Attributes:
        batch: the axes that both operands have, and those that none has.
        rows: those of the one operand, which are fused to one, and
        columns: those of the other.
        steps: those of the reduction, in the order in which they are fused.
        operands: with rows, and with columns.
        transposed: of each, whether the reduction is not the index of neighbours in memory.
        dtype: of both, of which float32 is cut to TF32.
        passed: whether threads read the first operand and pass it to instructions in registers.
    """

    batch: tuple[IterVar, ...]
    rows: tuple[IterVar, ...]
    columns: tuple[IterVar, ...]
    steps: tuple[IterVar, ...]
    operands: tuple[Operation, Operation]
    transposed: tuple[bool, bool]
    dtype: str
    passed: bool = False

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

    @property
    def extents(self) -> tuple[int, int, int]:
        """Rows, columns and steps of the reduction."""
        sides = (self.rows, self.columns, self.steps)
        m, n, k = (prod([extent_of(axis) or 1 for axis in each]) for each in sides)
        return m, n, k

    @property
    def of_last_rows(self) -> Product:
        """The product whose rows are of the last axis of these alone: others make a batch."""
        return replace(self, batch=(*self.batch, *self.rows[:-1]), rows=self.rows[-1:])

    @property
    def gathers(self) -> bool:
        """Whether steps are of several axes, so that rows of a view are not contiguous."""
        return sum(extent_of(axis) != 1 for axis in self.steps) > 1

    def is_transposed(self, operand: Operation) -> bool:
        """Return whether the reduction is not the index of an operand's neighbours."""
        return self.transposed[self.operands.index(operand)]

    def fits(self, rows: int, columns: int, steps: int) -> bool:
        """Return whether there is such a tile; the last steps of several may be cut short."""
        return all(map(ge, self.extents, (rows, columns, steps)))

    def divides(self, rows: int, columns: int) -> bool:
        """Return whether rows and columns are multiples of such a tile."""
        m, n, _ = self.extents
        return m % rows == 0 and n % columns == 0


def product_of(op: Operation, instructions: str) -> Product | None:
    """Returns the axes of a sum of products for tensor cores; None if it is none.

    Which of its axes are columns depends on the instructions: `TENSOR_CORE`, or of `WARPGROUPS`.
    """
    known = _PRODUCTS.setdefault(op, {})
    if instructions not in known:
        known[instructions] = _found_product(op, instructions)
    return known[instructions]


def _found_product(op: Operation, instructions: str) -> Product | None:
    if not isinstance(op, ComputeOp) or len(op.axis) < 2:
        return None
    pair = multiplied(op)
    if pair is None:
        return None
    first, second = (_indexed_by(each) for each in pair)
    rows = tuple([axis for axis in op.axis if axis.var in first and axis.var not in second])
    columns = tuple([axis for axis in op.axis if axis.var in second and axis.var not in first])
    sided = {*rows, *columns}
    batch = tuple([axis for axis in op.axis if axis not in sided])
    if not rows or not columns:
        return None
    last = next(axis for axis in reversed(op.axis) if axis in sided)
    # Columns are what neighbours of the result are, if that many of them stay together.
    own = OWN_COLUMNS[instructions]
    together = [_stay_together(each, op.axis, own) for each in (rows, columns)]
    if not any(together):
        return None
    wide = prod([extent_of(axis) or 1 for axis in rows]) >= COLUMNS * _TOGETHER
    if together[0] and (not together[1] or (rows[-1] is last and wide)):
        pair, rows, columns = pair[::-1], columns, rows
    transposed = _is_transposed(pair[0], rows, op), _is_transposed(pair[1], columns, op)
    passed = instructions == WGMMA_PASSED
    if passed and not _lies_across(pair[0], rows):
        if not _lies_across(pair[1], columns) or not _stay_together(rows, op.axis, own):
            return None
        pair, rows, columns, transposed = pair[::-1], columns, rows, transposed[::-1]
    steps = _in_memory(op.reduce_axis, pair[transposed[0] and not transposed[1]])
    operands = (pair[0].tensor.op, pair[1].tensor.op)
    dtype = pair[0].tensor.dtype
    return Product(batch, rows, columns, steps, operands, transposed, dtype, passed)


def multiplied(op: ComputeOp) -> tuple[ProducerLoad, ProducerLoad] | None:
    """Returns the two reads whose products an operation adds up, if both have all its steps."""
    body = op.body[0]
    if not isinstance(body, Reduce) or len(op.body) != 1:
        return None
    if not isinstance(body.condition, IntImm):
        return None
    if any(extent_of(axis) is None for axis in (*op.axis, *op.reduce_axis)):
        return None
    pair = _factors(body)
    if pair is None:
        return None
    both = _indexed_by(pair[0]) & _indexed_by(pair[1])
    return pair if all(k.var in both for k in op.reduce_axis) else None


def _indexed_by(load: ProducerLoad) -> set[Node]:
    """Return all that the indices of a read are made of."""
    return set(walk(*load.indices))


def _stay_together(axes: Sequence[IterVar], dimensions: Sequence[IterVar], own: int) -> bool:
    """Return whether columns are neighbours in the result where axes are fused.

    Those that are a thread's own are of the last axis; those that are stored at once may be
    of several axes that are dimensions behind one another.
    """
    if len(axes) == 1:
        return True
    run, place = 1, list(dimensions).index(axes[-1])
    for axis, dimension in zip(reversed(axes), reversed(dimensions[: place + 1]), strict=False):
        if axis is not dimension:
            break
        run *= extent_of(axis) or 1
    return (extent_of(axes[-1]) or 1) % own == 0 and run % _TOGETHER == 0


def _is_transposed(load: ProducerLoad, own: Sequence[IterVar], op: ComputeOp) -> bool:
    """Return whether neighbours are not steps of the reduction, or not these alone.

    Those of a batch are not looked at: a tile has one of them.
    """
    sides = {axis.var for axis in (*own, *op.reduce_axis)}
    indices = [set(walk(index)) for index in load.indices]
    used = next(each for each in reversed(indices) if each & sides)
    by_steps = any(axis.var in used for axis in op.reduce_axis)
    return not by_steps or any(axis.var in used for axis in own)


def _lies_across(load: ProducerLoad, own: Sequence[IterVar]) -> bool:
    """Return whether floats, of which ``wgmma`` reads steps only, can be copied by vectors.

    Neighbours are rows, of one axis, which a view leaves as it is.
    """
    length, extent = load.tensor.shape[-1], extent_of(own[0]) or 1
    if len(own) != 1 or load.indices[-1] is not own[0].var or not isinstance(length, int):
        return False
    vector = _COPIED_BYTES * 8 // bits_of(load.tensor.dtype)
    return load.tensor.dtype == "float32" and length % vector == extent % vector == 0


def _in_memory(axes: Sequence[IterVar], load: ProducerLoad) -> tuple[IterVar, ...]:
    """Return axes in the order in which an operand is indexed by them."""
    order = variables(*load.indices)
    return tuple(sorted(axes, key=lambda axis: order.index(axis.var)))


def _factors(body: Reduce) -> tuple[ProducerLoad, ProducerLoad] | None:
    """Return the factors of a sum in float32, if they are 16-bit floats, or floats cut to TF32.

    Sums of 16-bit floats may be in their own type, as long as nothing was done to them.
    """
    match body.sources:
        case (Mul(ProducerLoad() as a, ProducerLoad() as b),):
            dtypes: tuple[str, ...] = _SHORT
        case (Mul(Cast(ProducerLoad() as a), Cast(ProducerLoad() as b)),):
            dtypes = _SHORT if body.dtype == "float32" else ()
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
    # Views and copies are of the first result of an operation that has several.
    first = all(each.tensor is each.tensor.op.outputs[0] for each in (a, b))
    return (a, b) if first and a.tensor.op is not b.tensor.op else None


def untiled_product(
    context: SketchContext, state: State, stage_id: int, op: Operation, instructions: str
) -> Product | None:
    """Returns the product that a stage is for a GPU, if nothing was done to it yet.

    Args:
        context: of the rule.
        state: whose stage it is.
        stage_id: of the stage.
        op: what it computes, with groups as a dimension of their own.
        instructions: that are to multiply.
    """
    if not context.is_gpu or not is_untouched(state, stage_id) or len(reads_of(op)) != 2:
        return None
    return product_of(op, instructions)


def tiles_of(found: Product, rows: int, columns: int) -> int:
    """Returns how many tiles of some rows and columns a product has."""
    m, n, _ = found.extents
    batch = prod([extent_of(axis) or 1 for axis in found.batch])
    return batch * ceil_div(m, rows) * ceil_div(n, columns)


def arch_of(context: SketchContext) -> int:
    """Return the number of the architecture of a target, 90 of ``sm_90a``; 0 if none is named."""
    arch = context.search_task.target.arch
    digits = "".join(c for c in (arch or "") if c.isdigit())
    return int(digits or 0)
