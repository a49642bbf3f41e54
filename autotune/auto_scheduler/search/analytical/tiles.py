"""The tiled stages of a program: which columns of a row split which axes, and what is read.

The analytical cost models are computed from this: the tile of the output and the tile of the
reduction say how much of each input a block copies, without any lowering.
"""

from __future__ import annotations

import operator
import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import reduce
from math import prod

import numpy as np
import numpy.typing as npt

from autotune.auto_scheduler.graph.access import AccessAnalyzer
from autotune.auto_scheduler.graph.reads import reads_of
from autotune.auto_scheduler.layouts.layout_rewrite import reads_freely
from autotune.auto_scheduler.search.space.annotate_gpu import spatial_splits
from autotune.auto_scheduler.search.space.program import Program, Rows
from autotune.auto_scheduler.search.space.steps import splits_of
from autotune.auto_scheduler.sketch.lanes import lanes_of
from autotune.auto_scheduler.sketch.stage_queries import original_names
from autotune.auto_scheduler.states.loops import Stage
from autotune.auto_scheduler.transform_steps import PragmaStep, StorageAlignStep
from autotune.auto_scheduler.transform_steps.loops import MIN_BLOCKS, PIPELINE, UNROLL
from autotune.ir import Add, Expr, FloorDiv, IntImm, IterVar, Mul, Rewriter, Sub, Var
from autotune.ir.dtype import bits_of
from autotune.te.relation import extent_of
from autotune.te.tensor import ComputeOp, Operation

Column = npt.NDArray[np.float64]
# A number of a program; of rows of several programs one for each row.
Number = int | npt.NDArray[np.int64]
# What a part of a loop is called that several axes became.
_RUN = re.compile(r"(?:[^.@]+@){2,}\.\d+")


@dataclass(frozen=True)
class TiledAxis:
    """An axis of a tiled stage.

    Attributes:
        axis: of the operation.
        extent: its iterations.
        columns: of a row, with the lengths of its loops but the outermost; None if it is whole.
        decided: those lengths, where no slot has them.
    """

    axis: IterVar
    extent: Number
    columns: slice | None
    decided: tuple[int, ...] = ()

    def lengths(self, rows: Rows, parts: int) -> Column:
        """Return the lengths of the inner loops, shape (parts, rows)."""
        if self.columns is not None:
            return np.ascontiguousarray(rows[:, self.columns].T, np.float64)
        assert isinstance(self.extent, int)
        fixed = self.decided or (1,) * (parts - 1) + (self.extent,)
        return np.tile(np.array(fixed, np.float64)[:, None], (1, len(rows)))


@dataclass(frozen=True)
class TileInput:
    """An input that a tiled stage reads through a copy in shared memory.

    Attributes:
        name: of the copy.
        shape: of what is copied.
        item: bytes of an element.
        indices: for each read and dimension, the coefficient of each axis (data axes first); None
            where an index is not linear, so that all of the dimension is taken to be read.
        vector: column of the choice how many elements are copied at once, if it is one.
        in_shared: whether it is copied to shared memory, or read from where it is.
        packed: whether each block has a copy of its own part, or computes that itself.
        row: column of the choice whether rows of the copy are longer, if it is one.
        row_dimension: the dimension along which those rows are contiguous.
        tiled: whether its elements are stored in the order of the loops (`layout_rewrite`).
    """

    name: str
    shape: tuple[int, ...]
    item: int
    indices: tuple[tuple[tuple[Number, ...] | None, ...], ...]
    vector: int | None
    in_shared: bool
    packed: bool = False
    row: int | None = None
    row_dimension: int = 0
    tiled: bool = False

    @property
    def together(self) -> bool:
        """Whether what a tile reads is contiguous, in the order in which it is read."""
        return self.packed or self.tiled

    @property
    def bytes(self) -> int:
        """Bytes of all of it."""
        return prod(self.shape) * self.item

    @property
    def pitches(self) -> tuple[int, ...]:
        """Elements from one index to the next, by dimension."""
        return tuple(prod(self.shape[i + 1 :]) for i in range(len(self.shape)))

    @property
    def pitch(self) -> int:
        """Bytes from one row to the next."""
        return (self.shape[-1] if len(self.shape) > 1 else 0) * self.item


@dataclass(frozen=True)
class Tiled:
    """A tiled stage.

    Attributes:
        stage_id: its number at the end of the program.
        data: its data axes.
        reductions: its reduction axes.
        inputs: what it reads.
        item: bytes of an element of the result.
        unroll: column of the limit of unrolling; None if there is none.
        pipeline: column of the number of buffers of its copies; None if it has one of each.
        apart: whether another stage takes its results from it, tile by tile.
        lanes: the number of the data axis whose loop is the innermost.
        min_blocks: column of the blocks that a multiprocessor is to hold; None if nothing is said.
    """

    stage_id: int
    data: tuple[TiledAxis, ...]
    reductions: tuple[TiledAxis, ...]
    inputs: tuple[TileInput, ...]
    item: int
    unroll: int | None
    apart: bool = False
    pipeline: int | None = None
    lanes: int = -1
    min_blocks: int | None = None


def columns_of(tiled: Tiled) -> set[int]:
    """Return the columns of a row that a tiled stage depends on."""
    runs = [axis.columns for axis in (*tiled.data, *tiled.reductions) if axis.columns is not None]
    single = [tiled.unroll, tiled.pipeline, tiled.min_blocks]
    single += [column for each in tiled.inputs for column in (each.vector, each.row)]
    found = {column for column in single if column is not None}
    return found.union(*(range(each.start, each.stop) for each in runs))


def is_used(factor: Number) -> bool:
    """Return whether an index depends on the axis whose coefficient this is."""
    return not isinstance(factor, int) or factor != 0


def terms(axes: Sequence[TiledAxis]) -> float | Column:
    """Return the iterations of some axes together."""
    return reduce(operator.mul, [each.extent for each in axes], 1.0)


def tiled_stages(program: Program, rewrites: bool = False) -> list[Tiled]:
    """Return the tiled stages of a program: those whose reads repeat, with splits left open.

    Args:
        program: whose they are.
        rewrites: whether weights that may have any layout are stored as they are read.
    """
    state = program.state
    access = AccessAnalyzer(state.stage_ops)
    return [
        _tiled(program, stage_id, rewrites)
        for stage_id, stage in enumerate(state.stages)
        if access.needs_multi_level_tiling(stage.op)
        and any(step in program.columns for step in spatial_splits(state, stage_id))
    ]


def _tiled(program: Program, stage_id: int, rewrites: bool) -> Tiled:
    state = program.state
    op = state.stages[stage_id].op
    assert isinstance(op, ComputeOp)
    found = splits_of(state.transform_steps, stage_id)
    data_steps = spatial_splits(state, stage_id)
    groups = _runs(state.stages[stage_id])
    data = _axes(program, groups, data_steps)
    sums = [(axis,) for axis in op.reduce_axis]
    reductions = _axes(program, sums, found[len(data_steps) :])
    axes = [each.axis for each in (*data, *reductions)]
    inputs = tuple(
        _input(program, axes, source, reads, rewrites and reads_freely(op, source))
        for source, reads in reads_of(op).items()
    )
    lanes = op.axis[lanes_of(state.stages[stage_id])]
    return Tiled(
        stage_id, data, reductions, inputs, bits_of(op.outputs[0].dtype) // 8,
        hint_column(program, stage_id, UNROLL), stage_id in state.attach,
        hint_column(program, stage_id, PIPELINE),
        next(i for i, group in enumerate(groups) if lanes in group),
        hint_column(program, stage_id, MIN_BLOCKS),
    )  # fmt: skip


def _runs(stage: Stage) -> list[tuple[IterVar, ...]]:
    """Return the data axes of a stage, those together that were fused before they were split."""
    fused = {
        frozenset(original_names(loop.name))
        for loop in stage.iters
        if _RUN.fullmatch(loop.name) is not None
    }
    found: list[tuple[IterVar, ...]] = []
    for axis in stage.op.axis:
        name = axis.name.replace(".", "_")
        run = next((each for each in fused if name in each), frozenset())
        if found and found[-1][-1].name.replace(".", "_") in run:
            found[-1] = (*found[-1], axis)
        else:
            found.append((axis,))
    return found


def _axes(
    program: Program, groups: Sequence[tuple[IterVar, ...]], steps: Sequence[int]
) -> tuple[TiledAxis, ...]:
    """Pair the axes with the steps that split them; axes that are whole have none.

    Of several that are one loop the last stands for all: its neighbours are theirs.
    """
    found = []
    left = list(steps)
    for group in groups:
        axis, extent = group[-1], prod([extent_of(each) or 1 for each in group])
        step = program.state.transform_steps[left[0]] if left else None
        if step is None or getattr(step, "extent", 0) not in (0, extent):
            found.append(TiledAxis(axis, extent, None))
            continue
        number = left.pop(0)
        columns = program.columns.get(number)
        decided = () if columns is not None else tuple(getattr(step, "lengths", ()))
        found.append(TiledAxis(axis, extent, columns, decided))
    return tuple(found)


def _input(
    program: Program,
    axes: Sequence[IterVar],
    source: Operation,
    reads: Sequence[tuple[Expr, ...]],
    tiled: bool,
) -> TileInput:
    tensor = source.outputs[0]
    shape = tuple(n if isinstance(n, int) else 1 for n in tensor.shape)
    indices = tuple(tuple(_coefficients(index, axes) for index in each) for each in reads)
    shared = source.name.endswith(".shared")
    row, dimension = _row_column(program, source)
    return TileInput(
        source.name, shape, bits_of(tensor.dtype) // 8, indices,
        _vector_column(program, source) if shared else None, shared,
        program.state.stage_ops.index(source) in program.state.attach and not shared,
        row, dimension, tiled,
    )  # fmt: skip


def _row_column(program: Program, source: Operation) -> tuple[int | None, int]:
    """Return the column of the choice of longer rows, and the dimension of these."""
    stage_id = program.state.stage_ops.index(source)
    for slot in program.slots:
        step = program.state.transform_steps[slot.step]
        if isinstance(step, StorageAlignStep) and step.stage_id == stage_id:
            return int(program.columns[slot.step].start), step.iter_id
    return None, 0


def _vector_column(program: Program, source: Operation) -> int | None:
    stage_id = program.state.stage_ops.index(source)
    steps = splits_of(program.state.transform_steps, stage_id)
    columns = program.columns.get(steps[0]) if steps else None
    return None if columns is None else int(columns.start)


def hint_column(program: Program, stage_id: int, key: str) -> int | None:
    """Return the column of a hint with a number."""
    for slot in program.slots:
        step = program.state.transform_steps[slot.step]
        if not isinstance(step, PragmaStep) or step.stage_id != stage_id:
            continue
        if step.pragma_type.startswith(f"{key}$"):
            return int(program.columns[slot.step].start)
    return None


def _coefficients(index: Expr, axes: Sequence[IterVar]) -> tuple[int, ...] | None:
    """Return the factor of each axis in a linear index, or None if it is not linear."""
    terms = linear(_RoundedUp(axes).rewrite(index))
    if terms is None:
        return None
    return tuple(terms.get(axis.var, 0) for axis in axes)


class _RoundedUp(Rewriter):
    """Puts a short axis in place of what it is divided by its extent or more, which is 0 or 1."""

    def __init__(self, axes: Sequence[IterVar]) -> None:
        self.extents = {axis.var: extent_of(axis) for axis in axes}

    def visit_FloorDiv(self, node: FloorDiv) -> Expr:
        """Put the axis, which reaches as far if it has two iterations."""
        match node:
            case FloorDiv(Add(Var() as var, IntImm()), IntImm(n)):
                extent = self.extents.get(var)
                return var if extent is not None and extent <= n else node
            case _:
                return node


def linear(index: Expr) -> dict[Var, int] | None:
    """Return an index as sum of multiples of variables, without its constant part."""
    match index:
        case IntImm():
            return {}
        case Var():
            return {index: 1}
        case Add(a, b) | Sub(a, b):
            left, right = linear(a), linear(b)
            if left is None or right is None:
                return None
            sign = 1 if isinstance(index, Add) else -1
            return {v: left.get(v, 0) + sign * right.get(v, 0) for v in {**left, **right}}
        case Mul(a, b):
            return _scaled(a, b) or _scaled(b, a)
        case _:
            return None


def _scaled(a: Expr, b: Expr) -> dict[Var, int] | None:
    terms = linear(a)
    if terms is None or not isinstance(b, IntImm):
        return None
    return {var: factor * b.value for var, factor in terms.items()}
