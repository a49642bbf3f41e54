"""A rule for operands of sums of products whose neighbours in memory are steps of the sum.

A thread multiplies some rows by some columns, step by step. Of an operand stored row by row it
reads several steps of each of its rows at once from shared memory: many registers, which are all
loaded right before their use. Of a tile that was transposed on its way to shared memory it reads
the rows of one step, by vectors, while it multiplies those of the step before. All of a large
operand may be transposed first, by a kernel of its own (`sketch.permuted`): then tiles are copied
by vectors, too. TVM's rules copy tiles as they lie.
"""

from __future__ import annotations

from collections.abc import Iterable
from enum import Enum
from math import prod
from typing import ClassVar

from autotune.auto_scheduler.graph.reads import reads_of
from autotune.auto_scheduler.sketch.caches import CacheRead, readers_in_tiles, reduce_tile_end
from autotune.auto_scheduler.sketch.products import product_of
from autotune.auto_scheduler.sketch.rule import Condition, Derived, SketchContext
from autotune.auto_scheduler.states.loop_state import StateObject
from autotune.auto_scheduler.states.loops import ComputeAtKind
from autotune.auto_scheduler.states.replay import permuted_scope
from autotune.auto_scheduler.states.state import State
from autotune.auto_scheduler.transform_steps.loops import TENSOR_CORE
from autotune.ir import ProducerLoad, Var
from autotune.ir.dtype import bits_of
from autotune.te.relation import extent_of
from autotune.te.rewrite import PERMUTED
from autotune.te.tensor import ComputeOp, Operation

# Of fewer multiply-adds a graph may have many products, whose alternatives multiply, for no gain
# that was measured.
_SOME_TERMS = 2**24
# Fewer multiply-adds take less time than a kernel that transposes first gains.
_MANY_TERMS = 2**30
# Bits of what is copied one by one asynchronously, and how many of it are copied as a vector.
_WORD_BITS, _VECTOR = 32, 4


class _Copy(Enum):
    """How an operand that lies along the sum comes to shared memory."""

    PLAIN = "as it lies"
    TRANSPOSED = "transposed on its way"
    STORED = "of a copy that another kernel stores transposed"


class TransposeTiles:
    """Let the threads of a block transpose tiles on their way to shared memory."""

    name: ClassVar[str] = "TransposeTiles"

    def condition(self, context: SketchContext, state: State, stage_id: int) -> Condition:
        """Returns whether one stage in tiles, of enough terms, reads the stage along the sum."""
        fits = context.is_gpu and _reader(context, state, stage_id) is not None
        return Condition.APPLY_AND_SKIP_REST if fits else Condition.PASS

    def apply(self, context: SketchContext, state: State, stage_id: int) -> Iterable[Derived]:
        """Copy tiles as they lie, or of a permuted view, which another kernel may store before.

        The copy in shared memory is attached at the end of the outermost tile of reductions.
        Several products of a graph are copied alike: what is best for one of them is for the
        others, and alternatives of each would multiply.
        """
        reader, new = _reader(context, state, stage_id), state.copy()
        assert reader is not None
        order = list(range(len(state.stages[stage_id].op.outputs[0].shape)))
        order[-2:] = order[:-3:-1]
        new.cache_read(stage_id, permuted_scope(order), [reader])
        stored, at = new.copy(), reader + 2
        new.cache_read(stage_id + 1, "shared", [reader + 1])
        new.compute_at(stage_id + 2, at, reduce_tile_end(new.stages[at]))
        new.compute_inline(stage_id + 1)
        copies = [_Copy.PLAIN, _Copy.TRANSPOSED]
        if _pays_stored(state.stages[reader].op, state.stages[stage_id].op):
            copies.append(_Copy.STORED)
        before = _copied_before(state, reader, stage_id)
        if before is not None:
            copies = [before if before in copies else _Copy.TRANSPOSED]
        if _Copy.PLAIN in copies:
            yield from CacheRead().apply(context, state, stage_id)
        if _Copy.TRANSPOSED in copies:
            yield new, stage_id
        if _Copy.STORED in copies:
            yield stored, stage_id + 1


def _reader(context: SketchContext, state: State, stage_id: int) -> int | None:
    """Return the one stage in tiles that reads a stage, if it reads it along the sum."""
    found = readers_in_tiles(context, state, stage_id)
    source = state.stages[stage_id].op
    if len(found) != 1 or bits_of(source.outputs[0].dtype) != _WORD_BITS:
        return None
    op = state.stages[found[0]].op
    if not isinstance(op, ComputeOp) or product_of(op, TENSOR_CORE) is not None:
        return None
    if _terms(op) < _SOME_TERMS:
        return None
    return found[0] if _lies_along_sum(op, source) else None


def _copied_before(state: State, reader: int, stage_id: int) -> _Copy | None:
    """Return how the same operand of a product that was derived before is copied, if of any."""
    operand = list(reads_of(state.stages[reader].op)).index(state.stages[stage_id].op)
    for each, stage in enumerate(state.stages):
        op = stage.op
        if each == reader or not isinstance(op, ComputeOp) or product_of(op, TENSOR_CORE):
            continue
        sources = list(reads_of(op))[operand : operand + 1]
        found = _copy_of(state, op, sources[0]) if sources and op.reduce_axis else None
        if found is not None:
            return found
    return None


def _copy_of(state: State, op: ComputeOp, copy: Operation) -> _Copy | None:
    """Return how an operand came to shared memory; None if it does not lie along the sum."""
    if not isinstance(copy, ComputeOp) or not copy.name.endswith(".shared"):
        return None
    source = state.stages[state.stage_id(next(iter(reads_of(copy))))]
    if source.name.endswith(f".{PERMUTED}"):
        inlined = source.compute_at is ComputeAtKind.INLINED
        return _Copy.TRANSPOSED if inlined else _Copy.STORED
    plain = _terms(op) >= _SOME_TERMS and _lies_along_sum(op, copy)
    return _Copy.PLAIN if plain else None


def _pays_stored(op: Operation, source: Operation) -> bool:
    """Return whether a sum has many terms, and its operand rows that are copied by vectors."""
    rows = source.outputs[0].shape[-2]
    return _terms(op) >= _MANY_TERMS and isinstance(rows, int) and rows % _VECTOR == 0


def _terms(op: Operation) -> int:
    """Return how many products a stage adds up, of all its results."""
    return prod(extent_of(axis) or 1 for axis in (*op.axis, *op.reduce_axis))


def _lies_along_sum(op: ComputeOp, source: Operation) -> bool:
    """Return whether the last dimension is indexed by a step of a sum, the others by data axes."""
    reads = reads_of(op)[source]
    data, steps = ({axis.var for axis in axes} for axes in (op.axis, op.reduce_axis))
    if len(reads) != 1 or len(reads[0]) < 2 or len(source.outputs) != 1:
        return False
    *others, last = reads[0]
    return last in steps and all(isinstance(each, Var) and each in data for each in others)


def is_transposed_copy(state: StateObject, stage_id: int) -> bool:
    """Returns whether a stage copies tiles of a permuted view, which is stored nowhere."""
    op = state.stages[stage_id].op
    match op.body if isinstance(op, ComputeOp) else ():
        case (ProducerLoad() as load,):
            view = next(each for each in state.stages if each.op is load.tensor.op)
            inlined = view.compute_at is ComputeAtKind.INLINED
            return inlined and view.name.endswith(f".{PERMUTED}")
    return False
