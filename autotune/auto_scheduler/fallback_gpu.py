"""Fallback schedules of single stages on a GPU: a thread an element, a block a long sum."""

from __future__ import annotations

from collections.abc import Sequence

from autotune import te
from autotune.auto_scheduler.fallback_loops import UNROLLED, extent_or_one, size_of
from autotune.auto_scheduler.graph.reads import adds_columns
from autotune.ir import IterVar
from autotune.te.schedule import Schedule
from autotune.te.stage import Stage
from autotune.te.tensor import ComputeOp
from autotune.utils.math import ceil_div

_THREADS = 128
# A sum of so many elements is worth a block, if there are no more results than this.
_LONG_SUM, _FEW_RESULTS, _SUM_THREADS = 64, 1 << 14, 64
# Up to so many results do not fill a device by themselves: of sums this long threads do parts.
_SOME_RESULTS, _PARTED_SUM, _PARTS, _WARP = 1 << 16, 512, 8, 32
# Blocks that ranges of sums give a device, and shortest ranges, of columns and of others.
_COLUMN_RANGES, _ROW_RANGES = (1056, 256), (528, 4096)


def gpu_stage(schedule: Schedule, op: ComputeOp, sums: Sequence[ComputeOp]) -> None:
    """Schedule a stage as kernels of its own on a GPU."""
    apart = [each for each in sums if _sum_apart(schedule, each)]
    stage = schedule[op]
    if op.reduce_axis and _sum_apart(schedule, op):
        return
    axes = list(op.axis)
    block, thread = stage.split(_one_loop(stage, axes), factor=min(_THREADS, size_of(axes)))
    stage.bind(block, te.thread_axis("blockIdx.x"))
    stage.bind(thread, te.thread_axis("threadIdx.x"))
    for each in sums:
        if each in apart:
            continue
        inner = schedule[each]
        inner.compute_at(stage, thread)
        _unroll_small(inner, each)


def _one_loop(stage: Stage, axes: Sequence[IterVar]) -> IterVar:
    """Return the loop over all axes; without any, as of a single number, one that runs once."""
    return axes[0] if len(axes) == 1 else stage.fuse(*axes)


def _unroll_small(stage: Stage, op: ComputeOp) -> None:
    """Write short loops of a sum out."""
    left = UNROLLED
    for axis in reversed(op.reduce_axis):
        if extent_or_one(axis) > left or axis not in stage.leaf_iter_vars:
            break
        left //= max(extent_or_one(axis), 1)
        stage.unroll(axis)


def _sum_apart(schedule: Schedule, op: ComputeOp) -> bool:
    """Schedule a long sum as a kernel of its own, if its results are too few to fill a device."""
    if len(op.body) != 1 or not op.reduce_axis:
        return False
    results, length = size_of(op.axis), size_of(op.reduce_axis)
    parted = max(map(extent_or_one, op.reduce_axis)) >= _LONG_SUM
    if results <= _FEW_RESULTS and length >= _LONG_SUM:
        columns = parted and results >= _WARP and adds_columns(op)
        scheduled = _parted_sums if columns else _block_sums
        ranges = min(_ranges(results, length, columns), max(map(extent_or_one, op.reduce_axis)))
    elif results <= _SOME_RESULTS and length >= _PARTED_SUM and parted:
        scheduled, ranges = _parted_sums, 1
    else:
        return False
    if ranges > 1:
        stage = schedule[op]
        part, _ = stage.split(max(op.reduce_axis, key=extent_or_one), nparts=ranges)
        scheduled(schedule, schedule.rfactor(op.output(0), part).op)
        assert isinstance(stage.op, ComputeOp)
        (_thread_sums if results > ranges else _block_sums)(schedule, stage.op)
    else:
        scheduled(schedule, op)
    return True


def _ranges(results: int, length: int, columns: bool) -> int:
    """Return into how many ranges a sum is split, so that blocks fill a device."""
    blocks = ceil_div(results, _WARP) if columns else results
    wanted, shortest = _COLUMN_RANGES if columns else _ROW_RANGES
    return max(1, min(wanted // blocks, length // shortest))


def _thread_sums(schedule: Schedule, op: ComputeOp) -> None:
    """Let a thread add up each result."""
    stage = schedule[op]
    axes = list(op.axis)
    block, thread = stage.split(_one_loop(stage, axes), factor=min(_THREADS, size_of(axes)))
    stage.bind(block, te.thread_axis("blockIdx.x"))
    stage.bind(thread, te.thread_axis("threadIdx.x"))
    _unroll_small(stage, op)


def _parted_sums(schedule: Schedule, op: ComputeOp) -> None:
    """Let several warps of a block share the sums of as many results as a warp has threads.

    Neighbours still read neighbours, and what all of a warp read is read once.
    """
    stage = schedule[op]
    axes, sums = list(op.axis), list(op.reduce_axis)
    block, thread = stage.split(_one_loop(stage, axes), factor=_WARP)
    # One axis of the sum is parted, so that indices of the others stay plain.
    long = max(sums, key=extent_or_one)
    _, part = stage.split(long, factor=_PARTS)
    stage.bind(block, te.thread_axis("blockIdx.x"))
    stage.bind(thread, te.thread_axis("threadIdx.x"))
    stage.bind(part, te.thread_axis("threadIdx.y"))
    _unroll_small(stage, op)


def _block_sums(schedule: Schedule, op: ComputeOp) -> None:
    """Let the threads of a block share the sum of one result."""
    stage = schedule[op]
    axes, sums = list(op.axis), list(op.reduce_axis)
    block = _one_loop(stage, axes)
    _, thread = stage.split(_one_loop(stage, sums), factor=_SUM_THREADS)
    stage.bind(block, te.thread_axis("blockIdx.x"))
    stage.bind(thread, te.thread_axis("threadIdx.x"))
