"""Rows of one program whose kernels have the same loops, reduced to one representative.

Two rows give the same kernel if a higher limit of unrolling unrolls no further loop, or if they
move iterations between two loops with nothing between them. Trials of duplicates teach nothing: of
2,913 trials of convolutions and products, 549 had machine code that was measured before. These
rules find 444 of them, with 4 false positives.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from math import prod

import numpy as np
import numpy.typing as npt

from autotune.auto_scheduler.search.analytical.gpu_columns import (
    Levels,
    Shape,
    footprint,
    unrolled_steps,
)
from autotune.auto_scheduler.search.analytical.tiles import (
    Column,
    Number,
    Tiled,
    TiledAxis,
    TileInput,
)
from autotune.auto_scheduler.search.space.program import Program, Rows
from autotune.auto_scheduler.states.loops import Annotation, IterKind
from autotune.auto_scheduler.transform_steps import PragmaStep, SplitStep
from autotune.te.relation import extent_of

Mask = npt.NDArray[np.bool_]
# Statements of one iteration of a copy: few, or as many as with padding, by vectors of four.
_COPIED = (1.0, 8.0)
# Levels of data axes: virtual threads, threads, and a thread's own before and after the inner
# steps of the reduction; of reductions: steps before and after its own.
_BEFORE, _AFTER = 2, 3
# Statements of one term of a sum that is not tiled are as many at most.
_PLAIN = 4.0
# Iterations of one loop that compilers write out by themselves, of parts that blocks summed and of
# terms that threads share.
_SHORT, _SHORT_SHARED = 64, 16
# Terms of a sum whose length is not known: many.
_LONG = 4096


def with_fewest_loops(tiled: Tiled, rows: Rows, innermost: int) -> Rows:
    """Return rows in which loops that follow each other stand as one, the inner one.

    Args:
        tiled: the stage whose loops they are.
        rows: some rows.
        innermost: most iterations of an innermost loop.
    """
    rows = rows.copy()
    data = [at for axis in tiled.data if (at := _start(axis, _AFTER + 1)) is not None]
    sums = [at for axis in tiled.reductions if (at := _start(axis, 2)) is not None]
    if len(data) < len(tiled.data) or len(sums) < len(tiled.reductions):
        return rows
    own = [(at + _BEFORE, at + _AFTER) for at in data]
    steps = [(at, at + 1) for at in sums]
    between = _ones(rows, [inner for _, inner in steps])
    _merge(rows, own, between, innermost)
    between = _ones(rows, [outer for outer, _ in own])
    _merge(rows, steps, between, innermost)
    _join(tiled, rows, steps, between, innermost)
    return rows


def _join(
    tiled: Tiled, rows: Rows, steps: Sequence[tuple[int, int]], adjacent: Mask, most: int
) -> None:
    """Let all steps of the one sum that has any be those of one loop, where both are unrolled."""
    if tiled.unroll is None:
        return
    for outer, inner in steps:
        others = [column for pair in steps if pair != (outer, inner) for column in pair]
        whole = rows[:, outer] * rows[:, inner]
        levels = Levels(tiled, rows)
        written = Shape(tiled, levels).accumulators * whole <= rows[:, tiled.unroll]
        fits = adjacent & _ones(rows, others) & (whole <= most) & written
        rows[fits, inner] = whole[fits]
        rows[fits, outer] = 1


def _start(axis: TiledAxis, parts: int) -> int | None:
    """Return the first of the columns of an axis, if it has so many."""
    columns = axis.columns
    if columns is None or columns.stop - columns.start != parts:
        return None
    return int(columns.start)


def _ones(rows: Rows, columns: Sequence[int]) -> Mask:
    return np.asarray((rows[:, list(columns)] == 1).all(axis=1))


def _merge(rows: Rows, pairs: Sequence[tuple[int, int]], adjacent: Mask, most: int) -> None:
    """Move what outer loops do to inner ones that do nothing, where they are adjacent."""
    outer, inner = ([each[i] for each in pairs] for i in range(2))
    fits = adjacent & _ones(rows, inner) & (rows[:, outer] <= most).all(axis=1)
    for source, target in pairs:
        rows[fits, target] = rows[fits, source]
        rows[fits, source] = 1


def with_lowest_limit(tiled: Tiled, rows: Rows, limits: Sequence[int]) -> Rows:
    """Return rows whose limit of unrolling is the lowest that writes out the same loops.

    Args:
        tiled: the stage whose limit it is.
        rows: some rows.
        limits: those that there are, ascending.
    """
    if tiled.unroll is None or not len(rows):
        return rows
    levels = Levels(tiled, rows)
    shape = Shape(tiled, levels)
    sizes = _sizes(tiled, rows, levels, shape)
    # Loops over registers alone are written out by the compiler whatever the limit says.
    alone = shape.vthreads * levels.product(levels.data, slice(_AFTER, None))
    most = np.array(limits, np.float64)[:, None]
    steps = _steps(levels, shape, most * levels.one())
    statements = np.where(steps > alone, steps, 0.0)[:, None]
    written = np.concatenate([statements, np.array(sizes) <= most[:, None]], axis=1)
    rows = rows.copy()
    _lower(rows, tiled.unroll, written, limits)
    return rows


def _steps(levels: Levels, shape: Shape, limits: Column) -> Column:
    """Return how many statements of the sum itself limits let be written out."""
    data, sums = levels.data[::-1], levels.reductions[::-1]
    loops = [(each, slice(_AFTER, None)) for each in data]
    loops += [(each, slice(1, None)) for each in sums]
    loops += [(each, slice(_BEFORE, _AFTER)) for each in data]
    loops += [(each, slice(0, 1)) for each in sums]
    return unrolled_steps(levels, loops, shape.vthreads, limits)


def _sizes(tiled: Tiled, rows: Rows, levels: Levels, shape: Shape) -> list[Column]:
    """Return what limits are compared with besides: the least and the most that it may be."""
    whole = shape.vthreads * levels.product(levels.data, slice(2, None)) * shape.depth
    copies = [_copies(each, rows, levels) for each in tiled.inputs if each.in_shared]
    sizes = [shape.inner, whole * shape.chunks]
    for each in _COPIED:
        sizes += [each * some for some in copies]
        sizes.append((whole + each * sum(copies, levels.one() * 0)) * shape.chunks)
    return sizes


def _copies(source: TileInput, rows: Rows, levels: Levels) -> Column:
    """Return how many times a thread copies of one input, by the width that rows have."""
    elements = levels.one()
    for extent in footprint(source, levels, slice(None), slice(None)):
        elements = elements * extent
    width = np.ones(levels.count) if source.vector is None else rows[:, source.vector]
    return np.asarray(np.ceil(elements / (levels.product(levels.data, slice(1, 2)) * width)))


@dataclass(frozen=True)
class PlainSum:
    """A sum that is not tiled, and whose limit of unrolling is open.

    Attributes:
        limit: column of the limit.
        terms: of each result.
        threads: columns of numbers of threads, one of which share the terms; none where each
            result has a thread of its own.
        loops: over the terms of one thread.
    """

    limit: int
    terms: Number
    threads: tuple[int, ...]
    loops: int


def plain_sums(program: Program, tiled: Sequence[Tiled]) -> list[PlainSum]:
    """Return the sums of a program that are not tiled."""
    found = []
    known = {each.unroll for each in tiled}
    steps = program.state.transform_steps
    splits = [slot.step for slot in program.slots if isinstance(steps[slot.step], SplitStep)]
    for slot in program.slots:
        step, column = steps[slot.step], program.columns[slot.step].start
        if column in known or not isinstance(step, PragmaStep) or step.unroll is None:
            continue
        stage = program.state.stages[step.stage_id]
        loops = [each for each in stage.iters if each.iter_kind is IterKind.REDUCTION]
        own = [each for each in loops if each.annotation is not Annotation.THREAD_X]
        terms = prod([extent_of(axis) or _LONG for axis in stage.op.reduce_axis])
        threads = [program.columns[i].start for i in splits] if len(own) < len(loops) else []
        found.append(PlainSum(column, terms, tuple(threads), len(own)))
    return found


def with_lowest_plain_limits(sums: Sequence[PlainSum], rows: Rows, limits: Sequence[int]) -> Rows:
    """Return rows whose limits for sums that are not tiled are the lowest that do the same."""
    rows = rows.copy()
    for each in sums:
        counts = [np.ceil(each.terms / rows[:, threads]) for threads in each.threads]
        counts = counts or [np.zeros(len(rows)) + each.terms]
        facts = [factor * count for count in counts for factor in (1, _PLAIN)]
        written = [np.array([fact <= limit for fact in facts]) for limit in limits]
        _lower(rows, each.limit, written, limits)
        if each.loops == 1:
            short = _SHORT_SHARED if each.threads else _SHORT
            rows[(np.array(counts) <= short).all(axis=0), each.limit] = limits[0]
    return rows


def _lower(
    rows: Rows, column: int, written: Sequence[Column] | Column, limits: Sequence[int]
) -> None:
    """Lower limits as long as what is written out stays the same."""
    for low, high in reversed([*pairwise(range(len(limits)))]):
        same = (rows[:, column] == limits[high]) & (written[low] == written[high]).all(axis=0)
        rows[same, column] = limits[low]
