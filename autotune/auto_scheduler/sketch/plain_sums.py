"""A rule for long sums of few results whose terms are read once, such as means and column sums.

Without it one block adds up each result, or one thread: the sum of a whole array runs on one of
132 multiprocessors, and threads that share the sum of a column read floats that are rows apart.
"""

from __future__ import annotations

from collections.abc import Iterable
from math import prod
from typing import ClassVar

from autotune.auto_scheduler.graph.reads import adds_columns
from autotune.auto_scheduler.sketch.reductions import CrossThreadReduction, fuse_reductions
from autotune.auto_scheduler.sketch.rule import Condition, Derived, SketchContext
from autotune.auto_scheduler.sketch.split_reduction import attach_to_reader
from autotune.auto_scheduler.sketch.stage_queries import (
    has_cache_write,
    has_rfactor,
    loops_of,
    needs_tiling,
    sizes,
)
from autotune.auto_scheduler.states.loops import IterKind
from autotune.auto_scheduler.states.state import State
from autotune.te.relation import extent_of
from autotune.te.tensor import Operation
from autotune.utils.math import divisors

# Sums of fewer terms, all results together, take no longer than the second kernel; nor do those
# of rows that a block adds up in few steps.
_FEWEST_TERMS, _SHORTEST_ROW = 2**17, 2**14
# Most results: each of a block's threads, or of one thread, whose neighbours read neighbours.
_MOST_ROWS, _MOST_COLUMNS = 64, 2**16
# Parts of all results together: blocks and threads that fill a device; and terms of a part.
_ROW_PARTS, _COLUMN_PARTS = (2**8, 2**12), (2**12, 2**17)
_SHORTEST = 16
# With fewer results threads share what adds the parts up.
_FEW_RESULTS = 256


class SplitPlainSums:
    """Let blocks add up parts of sums, and another kernel add the parts."""

    name: ClassVar[str] = "SplitPlainSums"

    def condition(self, context: SketchContext, state: State, stage_id: int) -> Condition:
        """Returns whether there are few results of long sums, and no tiles for them."""
        stage = state.stages[stage_id]
        if not context.is_gpu or not loops_of(stage, IterKind.REDUCTION):
            return Condition.PASS
        if has_cache_write(state, stage_id) or has_rfactor(state, stage_id):
            return Condition.PASS
        if needs_tiling(context, state, stage_id) or len(stage.op.outputs) > 1:
            return Condition.PASS
        results, terms = sizes(stage)
        if adds_columns(stage.op):
            fits = results <= _MOST_COLUMNS
        else:
            fits = results <= _MOST_ROWS and terms >= _SHORTEST_ROW
        fits &= results * terms >= _FEWEST_TERMS
        return Condition.APPLY if fits and parts_of_sums(stage.op) else Condition.PASS

    def apply(self, context: SketchContext, state: State, stage_id: int) -> Iterable[Derived]:
        """Factor the sum out; the parts are added where they are read, or by a block a result."""
        new = state.copy()
        op = new.stages[stage_id].op
        results, terms = sizes(new.stages[stage_id])
        # The length is opened again when the sketch is whole.
        length = terms // parts_of_sums(op)[0]
        outer, _ = new.split(stage_id, fuse_reductions(new, stage_id), [length])
        new.rfactor(stage_id, outer, 0)
        if results >= _FEW_RESULTS:
            attach_to_reader(context, new, stage_id + 1)
        else:
            new = _by_threads(context, new, stage_id + 1)
        return [(new if adds_columns(op) else _by_threads(context, new, stage_id), stage_id - 1)]


def _by_threads(context: SketchContext, state: State, stage_id: int) -> State:
    """Return a state in which the threads of a block share each sum of a stage."""
    ((shared, _),) = CrossThreadReduction().apply(context, state, stage_id)
    return shared


def parts_of_sums(op: Operation) -> tuple[int, ...]:
    """Returns into how many parts the sums of an operation may be split, fewest first.

    They divide its length, and give a device enough blocks, or threads where these add columns.
    """
    results = prod(extent_of(axis) or 1 for axis in op.axis)
    terms = prod(extent_of(axis) or 1 for axis in op.reduce_axis)
    least, most = _COLUMN_PARTS if adds_columns(op) else _ROW_PARTS
    found: list[int] = []
    for n in divisors(terms):
        wanted = least <= n * results <= most and n > 1 and terms >= n * _SHORTEST
        if wanted and n >= 2 * (found or [0])[-1]:
            found.append(n)
    return tuple(found)
