"""Fallback schedules of single stages on the CPU: vectors inside, parallel loops outside."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from autotune.auto_scheduler.fallback_loops import (
    WINDOW_AXES,
    are_vars,
    extent_or_one,
    first_divisor,
)
from autotune.ir import IterVar, reads_in, variables
from autotune.te.schedule import Schedule
from autotune.te.stage import Stage
from autotune.te.tensor import ComputeOp

# Lanes of vectors on the CPU, the best first; and elements beside them that share what is loaded.
_LANES, _BESIDE = (16, 8, 4), (6, 4, 7, 3, 2)
# The same where bytes are read or written, element by element.
_BYTES, _LANES_OF_BYTES = ("int8", "uint8"), (64, 32, *_LANES)


def window_stage(schedule: Schedule, op: ComputeOp, padding: ComputeOp) -> None:
    """Sum up windows of an image with its padding put around it before: all steps written out."""
    stage, axes = schedule[op], list(op.axis)
    whole, rows = axes[:-WINDOW_AXES], axes[-WINDOW_AXES:-1]
    image = stage.fuse(*whole) if len(whole) > 1 else whole[0]
    last, lanes = stage.split(axes[-1], factor=first_divisor(extent_or_one(axes[-1]), _LANES))
    stage.reorder(image, *rows, last, *op.reduce_axis, lanes)
    for axis in (*op.reduce_axis, lanes):
        stage.unroll(axis)
    stage.parallel(image)
    schedule[padding].compute_at(stage, image)


@dataclass(frozen=True)
class _Tile:
    """The loops of a CPU stage: those that run in parallel, and what one step computes."""

    outer: list[IterVar]
    inner: list[IterVar]


def cpu_stage(schedule: Schedule, op: ComputeOp, sums: Sequence[ComputeOp]) -> None:
    """Schedule a stage of its own on the CPU."""
    stage = schedule[op]
    if op.reduce_axis:
        _sum_of_its_own(schedule, op)
        return
    if not op.axis:
        return
    beside = _axis_beside(sums[0]) if len(sums) == 1 else None
    if not sums and _maps_bytes(op):
        whole = stage.fuse(*op.axis) if len(op.axis) > 1 else op.axis[0]
        lanes = first_divisor(math.prod(extent_or_one(axis) for axis in op.axis), _LANES_OF_BYTES)
        runs, vector = stage.split(whole, factor=lanes)
        stage.vectorize(vector)
        stage.parallel(runs)
        return
    tile = _tile(stage, list(op.axis), beside)
    for each in sums:
        inner = schedule[each]
        inner.compute_at(stage, tile.outer[-1])
        _sum(inner, each, beside)
    if len(tile.outer) > 1 or not sums:
        # Sums are attached to the last of the loops.
        stage.parallel(stage.fuse(*(tile.outer[:-1] if sums else tile.outer)))


def _maps_bytes(op: ComputeOp) -> bool:
    """Return whether a stage computes element by element, from or to numbers of a byte."""
    dtypes, todo, seen = {op.output(0).dtype}, [op], set[ComputeOp]()
    while todo:
        stage = todo.pop()
        if stage in seen:
            continue
        seen.add(stage)
        own = [axis.var for axis in stage.axis]
        for load in reads_in(*stage.body):
            made = load.tensor.op
            if load.indices and not are_vars(list(load.indices), own):
                return False
            if isinstance(made, ComputeOp):
                if made.reduce_axis:
                    return False
                todo.append(made)
            elif load.indices:
                dtypes.add(load.tensor.dtype)
    return not dtypes.isdisjoint(_BYTES)


def _tile(stage: Stage, axes: list[IterVar], beside: int | None) -> _Tile:
    """Split the last axis into vectors, and one beside it into steps that are written out."""
    outer, inner = list(axes), list[IterVar]()
    lanes = first_divisor(extent_or_one(axes[-1]), _LANES)
    if beside is not None:
        count = first_divisor(extent_or_one(axes[beside]), _BESIDE)
        if count > 1:
            outer[beside], steps = stage.split(axes[beside], factor=count)
            inner.append(steps)
    outer[-1], vector = stage.split(axes[-1], factor=lanes)
    inner.append(vector)
    stage.reorder(*outer, *inner)
    for each in inner[:-1]:
        stage.unroll(each)
    if lanes > 1:
        stage.vectorize(vector)
    return _Tile(outer, inner)


def _axis_beside(op: ComputeOp) -> int | None:
    """Return the axis whose steps can share what a vector along the last axis loads."""
    last = op.axis[-1].var
    for load in reads_in(*op.body):
        used = set(variables(*load.indices))
        if last not in used:
            continue
        free = [i for i, axis in enumerate(op.axis[:-1]) if axis.var not in used]
        wide = [i for i in free if extent_or_one(op.axis[i]) > 1]
        if wide:
            return wide[-1]
    return None


def _sum(stage: Stage, op: ComputeOp, beside: int | None) -> None:
    """Sum up a tile: steps of the sum outside, vectors inside."""
    axes = list(op.axis)
    stage.reorder(*op.reduce_axis, *axes)
    if beside is not None and first_divisor(extent_or_one(axes[beside]), _BESIDE) > 1:
        stage.unroll(axes[beside])
    if first_divisor(extent_or_one(axes[-1]), _LANES) > 1:
        stage.vectorize(axes[-1])


def _sum_of_its_own(schedule: Schedule, op: ComputeOp) -> None:
    """Sum up in place: results in parallel."""
    stage = schedule[op]
    axes = list(op.axis)
    if not axes:
        return
    lanes = first_divisor(extent_or_one(axes[-1]), _LANES)
    outer = axes[:-1]
    if lanes > 1 and len(op.body) == 1:
        last, vector = stage.split(axes[-1], factor=lanes)
        outer = [*outer, last]
        stage.reorder(*outer, *op.reduce_axis, vector)
        stage.vectorize(vector)
    else:
        outer = axes
        stage.reorder(*outer, *op.reduce_axis)
    stage.parallel(stage.fuse(*outer) if len(outer) > 1 else outer[0])
