"""A schedule for any graph of tensor expressions, without measuring anything.

It is used before anything was tuned. Stages with data reuse, such as matrix products, get the
tiles that the analytical cost models rank first (`search/untuned.py`); all others are scheduled by
the rules here.

Elementwise stages before or after a reduction are inlined; a reduction that one elementwise stage
reads is accumulated in registers where that stage needs it. On the CPU the innermost axis is
vectorised and the outer ones run in parallel; on a GPU each element has a thread. Few elements
with long sums get a block each, several blocks, or a column of threads in one; many elements
without sums are computed several to a thread (`fallback_maps`).
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from autotune import te
from autotune.auto_scheduler.fallback_maps import map_schedule
from autotune.auto_scheduler.search.untuned import untuned_schedule
from autotune.ir import Conditional, Expr, IterVar, Var, reads_in, variables
from autotune.target import Target
from autotune.te.dag import post_order
from autotune.te.schedule import Schedule
from autotune.te.stage import Stage
from autotune.te.tensor import ComputeOp, Operation, Tensor
from autotune.utils.math import ceil_div

# Lanes of vectors on the CPU, the best first; and elements beside them that share what is loaded.
_LANES, _BESIDE = (16, 8, 4), (6, 4, 7, 3, 2)
# The same where bytes are read or written, element by element.
_BYTES, _LANES_OF_BYTES = ("int8", "uint8"), (64, 32, *_LANES)
_THREADS = 128
# A sum of so many elements is worth a block, if there are no more results than this.
_LONG_SUM, _FEW_RESULTS, _SUM_THREADS = 64, 1 << 14, 64
# Up to so many results do not fill a device by themselves: of sums this long threads do parts.
_SOME_RESULTS, _PARTED_SUM, _PARTS, _WARP = 1 << 16, 512, 8, 32
# Blocks that ranges of sums give a device, and shortest ranges, of columns and of others.
_COLUMN_RANGES, _ROW_RANGES = (1056, 256), (528, 4096)
# Loops of no more steps are written out.
_UNROLLED = 16
# Reads of the text of one element, at most: it doubles with each stage that is read twice.
_LONGEST_TEXT = 512
# The innermost axes of what windows go over: rows and columns.
_WINDOW_AXES = 2


def fallback_schedule(
    tensors: Sequence[Tensor], target: Target | str
) -> tuple[Schedule, list[Tensor]]:
    """Return a schedule that works on a target, and the arguments.

    Args:
        tensors: inputs and outputs, as the arguments of the kernel.
        target: a CPU or a CUDA device; only its kind and its limits matter.
    """
    outputs = [tensor.op for tensor in tensors if isinstance(tensor.op, ComputeOp)]
    on_gpu = Target(target).backend.on_gpu
    estimated = untuned_schedule(tensors, Target(target))
    if estimated is not None:
        return estimated, list(tensors)
    computes = [op for op in post_order(outputs) if isinstance(op, ComputeOp)]
    inlined = _inlined(computes, outputs)
    if on_gpu and len(inlined) + len(outputs) == len(computes):
        made = map_schedule(tensors, computes, outputs, Target(target))
        if made is not None:
            return made, list(tensors)
    schedule = te.create_schedule(outputs)
    for op in computes:
        if op in inlined:
            schedule[op].compute_inline()
    users = _users(computes, inlined)
    paddings = {} if on_gpu else _paddings(computes, inlined, users)
    attached = {op: _elementwise_user(op, users[op], outputs) for op in computes if op.reduce_axis}
    for op in computes:
        if op in inlined or attached.get(op) is not None:
            continue
        sums = [each for each, user in attached.items() if user is op]
        if op in paddings:
            _cpu_windows(schedule, op, paddings[op])
        else:
            (_gpu_root if on_gpu else _cpu_root)(schedule, op, sums)
    return schedule, list(tensors)


def _inlined(computes: Sequence[ComputeOp], outputs: Sequence[Operation]) -> set[ComputeOp]:
    """Return the stages without sums but those whose text would become too long."""
    found: set[ComputeOp] = set()
    reads: dict[Operation, int] = {}
    for op in computes:
        count = sum(reads.get(load.tensor.op, 1) for load in reads_in(*op.body))
        if not op.reduce_axis and op not in outputs and count <= _LONGEST_TEXT:
            found.add(op)
            reads[op] = max(count, 1)
    return found


def _paddings(
    computes: Sequence[ComputeOp],
    inlined: set[ComputeOp],
    users: Mapping[Operation, Sequence[tuple[ComputeOp, bool]]],
) -> dict[ComputeOp, ComputeOp]:
    """Return for sums over small windows the stage of choices that only they read, if any."""
    found = {}
    for op in computes:
        readers = {user for user, _ in users[op]}
        if op not in inlined or len(readers) != 1 or not isinstance(op.body[0], Conditional):
            continue
        (reader,) = readers
        reads = {load.tensor.op for load in reads_in(*reader.body)}
        small = reader.reduce_axis and _size(reader.reduce_axis) <= _UNROLLED
        if small and reads == {op} and len(reader.axis) > _WINDOW_AXES and len(reader.body) == 1:
            found[reader] = op
    return found


def _cpu_windows(schedule: Schedule, op: ComputeOp, padding: ComputeOp) -> None:
    """Sum up windows of an image with its padding put around it before: all steps written out."""
    stage, axes = schedule[op], list(op.axis)
    whole, rows = axes[:-_WINDOW_AXES], axes[-_WINDOW_AXES:-1]
    image = stage.fuse(*whole) if len(whole) > 1 else whole[0]
    last, lanes = stage.split(axes[-1], factor=_divisor(_extent(axes[-1]), _LANES))
    stage.reorder(image, *rows, last, *op.reduce_axis, lanes)
    for axis in (*op.reduce_axis, lanes):
        stage.unroll(axis)
    stage.parallel(image)
    schedule[padding].compute_at(stage, image)


def _users(
    computes: Sequence[ComputeOp], inlined: set[ComputeOp]
) -> dict[Operation, list[tuple[ComputeOp, bool]]]:
    """Return who reads each operation once others are inlined, and whether at its own index."""
    # Each reader once, in order, however often it reads.
    found: dict[Operation, dict[tuple[ComputeOp, bool], None]] = {op: {} for op in computes}
    for reader in reversed(computes):
        loads = reads_in(*reader.body)
        own = [axis.var for axis in reader.axis]
        for load in loads:
            same = list(load.indices) == own or _same_vars(load.indices, own)
            if load.tensor.op not in found:
                continue
            through = list(found[reader]) if reader in inlined else [(reader, True)]
            found[load.tensor.op] |= {(user, same and exact): None for user, exact in through}
    return {op: list(users) for op, users in found.items()}


def _same_vars(indices: Sequence[Expr], own: Sequence[Var]) -> bool:
    return len(indices) == len(own) and all(a is b for a, b in zip(indices, own, strict=True))


def _elementwise_user(
    op: ComputeOp, users: Sequence[tuple[ComputeOp, bool]], outputs: Sequence[Operation]
) -> ComputeOp | None:
    """Return the one stage that reads a reduction at its own index, if there is no other."""
    readers = {user for user, _ in users}
    if op in outputs or len(readers) != 1 or not all(exact for _, exact in users):
        return None
    (user,) = readers
    shapes = [[int(axis.extent.value) for axis in each.axis] for each in (op, user)]  # type: ignore[attr-defined]
    return user if not user.reduce_axis and shapes[0] == shapes[1] else None


def _extent(axis: IterVar) -> int:
    value = getattr(axis.extent, "value", None)
    return int(value) if value is not None else 1


def _size(axes: Sequence[IterVar]) -> int:
    return math.prod(_extent(axis) for axis in axes)


def _divisor(extent: int, wanted: Sequence[int]) -> int:
    """Return the first of the wanted factors that divides an extent; 1 if none does."""
    return next((n for n in wanted if extent % n == 0), 1)


@dataclass(frozen=True)
class _Tile:
    """The loops of a CPU stage: those that run in parallel, and what one step computes."""

    outer: list[IterVar]
    inner: list[IterVar]


def _cpu_root(schedule: Schedule, op: ComputeOp, sums: Sequence[ComputeOp]) -> None:
    """Schedule a stage of its own on the CPU."""
    stage = schedule[op]
    if op.reduce_axis:
        _cpu_sum_of_its_own(schedule, op)
        return
    if not op.axis:
        return
    beside = _axis_beside(op, sums[0]) if len(sums) == 1 else None
    if not sums and _maps_bytes(op):
        whole = stage.fuse(*op.axis) if len(op.axis) > 1 else op.axis[0]
        lanes = _divisor(math.prod(_extent(axis) for axis in op.axis), _LANES_OF_BYTES)
        runs, vector = stage.split(whole, factor=lanes)
        stage.vectorize(vector)
        stage.parallel(runs)
        return
    tile = _cpu_tile(stage, list(op.axis), beside)
    for each in sums:
        inner = schedule[each]
        inner.compute_at(stage, tile.outer[-1])
        _cpu_sum(inner, each, beside)
    if len(tile.outer) > 1 or not sums:
        stage.parallel(stage.fuse(*_parallel(tile.outer, bool(sums))))


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
            if load.indices and not _same_vars(list(load.indices), own):
                return False
            if isinstance(made, ComputeOp):
                if made.reduce_axis:
                    return False
                todo.append(made)
            elif load.indices:
                dtypes.add(load.tensor.dtype)
    return not dtypes.isdisjoint(_BYTES)


def _parallel(outer: list[IterVar], keep_last: bool) -> list[IterVar]:
    """Return the loops to share among threads; sums are attached to the last."""
    return outer[:-1] if keep_last else outer


def _cpu_tile(stage: Stage, axes: list[IterVar], beside: int | None) -> _Tile:
    """Split the last axis into vectors, and one beside it into steps that are written out."""
    outer, inner = list(axes), list[IterVar]()
    lanes = _divisor(_extent(axes[-1]), _LANES)
    if beside is not None:
        count = _divisor(_extent(axes[beside]), _BESIDE)
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


def _axis_beside(user: ComputeOp, op: ComputeOp) -> int | None:
    """Return the axis whose steps can share what a vector along the last axis loads."""
    last = op.axis[-1].var
    for load in reads_in(*op.body):
        used = set(variables(*load.indices))
        if last not in used:
            continue
        free = [i for i, axis in enumerate(op.axis[:-1]) if axis.var not in used]
        wide = [i for i in free if _extent(op.axis[i]) > 1]
        if wide:
            return wide[-1]
    return None


def _cpu_sum(stage: Stage, op: ComputeOp, beside: int | None) -> None:
    """Sum up a tile: steps of the sum outside, vectors inside."""
    axes = list(op.axis)
    stage.reorder(*op.reduce_axis, *axes)
    if beside is not None and _divisor(_extent(axes[beside]), _BESIDE) > 1:
        stage.unroll(axes[beside])
    if _divisor(_extent(axes[-1]), _LANES) > 1:
        stage.vectorize(axes[-1])


def _cpu_sum_of_its_own(schedule: Schedule, op: ComputeOp) -> None:
    """Sum up in place: results in parallel."""
    stage = schedule[op]
    axes = list(op.axis)
    if not axes:
        return
    lanes = _divisor(_extent(axes[-1]), _LANES)
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


def _gpu_root(schedule: Schedule, op: ComputeOp, sums: Sequence[ComputeOp]) -> None:
    """Schedule a stage as kernels of its own on a GPU."""
    apart = [each for each in sums if _sum_apart(schedule, each)]
    stage = schedule[op]
    if op.reduce_axis and _sum_apart(schedule, op):
        return
    axes = list(op.axis)
    block, thread = stage.split(_one_loop(stage, axes), factor=min(_THREADS, _size(axes)))
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
    left = _UNROLLED
    for axis in reversed(op.reduce_axis):
        if _extent(axis) > left or axis not in stage.leaf_iter_vars:
            break
        left //= max(_extent(axis), 1)
        stage.unroll(axis)


def _sum_apart(schedule: Schedule, op: ComputeOp) -> bool:
    """Schedule a long sum as a kernel of its own, if its results are too few to fill a device."""
    if len(op.body) != 1 or not op.reduce_axis:
        return False
    results, length = _size(op.axis), _size(op.reduce_axis)
    parted = max(map(_extent, op.reduce_axis)) >= _LONG_SUM
    if results <= _FEW_RESULTS and length >= _LONG_SUM:
        columns = parted and results >= _WARP and _adds_columns(op)
        scheduled = _parted_sums if columns else _block_sums
        ranges = min(_ranges(results, length, columns), max(map(_extent, op.reduce_axis)))
    elif results <= _SOME_RESULTS and length >= _PARTED_SUM and parted:
        scheduled, ranges = _parted_sums, 1
    else:
        return False
    if ranges > 1:
        stage = schedule[op]
        part, _ = stage.split(max(op.reduce_axis, key=_extent), nparts=ranges)
        scheduled(schedule, schedule.rfactor(op.output(0), part).op)
        assert isinstance(stage.op, ComputeOp)
        (_thread_sums if results > ranges else _block_sums)(schedule, stage.op)
    else:
        scheduled(schedule, op)
    return True


def _adds_columns(op: ComputeOp) -> bool:
    """Return whether neighbours in memory belong to different results."""
    over = {axis.var for axis in op.reduce_axis}
    last = [set(variables(load.indices[-1])) for load in reads_in(*op.body) if load.indices]
    return bool(last) and all(used and used.isdisjoint(over) for used in last)


def _ranges(results: int, length: int, columns: bool) -> int:
    """Return into how many ranges a sum is split, so that blocks fill a device."""
    blocks = ceil_div(results, _WARP) if columns else results
    wanted, shortest = _COLUMN_RANGES if columns else _ROW_RANGES
    return max(1, min(wanted // blocks, length // shortest))


def _thread_sums(schedule: Schedule, op: ComputeOp) -> None:
    """Let a thread add up each result."""
    stage = schedule[op]
    axes = list(op.axis)
    block, thread = stage.split(_one_loop(stage, axes), factor=min(_THREADS, _size(axes)))
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
    long = max(sums, key=_extent)
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
