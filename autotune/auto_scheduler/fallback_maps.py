"""Fallback schedules of elementwise stages on a GPU: each thread computes several elements.

With one element a thread, launching blocks takes longer than the memory traffic. A thread stores
vectors of up to 16 bytes if everything that it reads for them is an aligned vector, or the same
for all lanes; otherwise its elements are one block size apart, so that loads coalesce.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from autotune import te
from autotune.codegen.vectors import factor_of
from autotune.ir import Load, Node, Ramp, Store, walk
from autotune.lowering import lower_schedule
from autotune.target import Target
from autotune.te.schedule import Schedule
from autotune.te.tensor import ComputeOp, Operation, Tensor

# Elements from which on a thread has several, threads of a block, and vectors of a thread that are
# in flight together.
_MANY, _THREADS, _VECTORS = 1 << 17, 256, 2
# Elements of a thread, and more of them where these many threads remain. On an H200 padding 6.6
# million floats took 16.4 us by 4 and 14.5 by 8, joining 2 million 3.4 and 3.6.
_FEW, _ELEMENTS, _THREADS_ENOUGH = 4, 8, 1 << 19
# Blocks that fill a device; vectors of fewer are not doubled.
_WANTED = 528
_LANES = (16, 8, 4, 2)


def map_schedule(
    tensors: Sequence[Tensor], computes: Sequence[ComputeOp], outputs: Sequence[Operation],
    target: Target,
) -> Schedule | None:  # fmt: skip
    """Return the schedule of stages without reductions; None if elements are few.

    Args:
        tensors: inputs and outputs.
        computes: all stages, of which those that are no outputs are inlined.
        outputs: those that are.
        target: a GPU.
    """
    sizes = [_size(op) for op in computes if op in outputs]
    if any(op.reduce_axis or len(op.body) > 1 for op in computes) or min(sizes) < _MANY:
        return None
    for lanes in _LANES:
        if any(size % lanes for size in sizes):
            continue
        schedule = _scheduled(computes, outputs, lanes, _vectors(min(sizes), lanes))
        if _is_wide(schedule, tensors, lanes, target):
            return schedule
    return _scheduled(computes, outputs, 1, _elements(min(sizes)))


def _elements(size: int) -> int:
    """Return how many elements a thread has at least."""
    return _ELEMENTS if size >= _ELEMENTS * _THREADS_ENOUGH else _FEW


def _vectors(size: int, lanes: int) -> int:
    """Return how many vectors a thread has: several, where blocks still fill a device."""
    several = max(_VECTORS, _elements(size) // lanes)
    return several if size >= _WANTED * _THREADS * lanes * several else 1


def _size(op: ComputeOp) -> int:
    """Return the number of elements; 0 if it is not known."""
    return math.prod(int(getattr(axis.extent, "value", 0)) for axis in op.axis)


def _scheduled(
    computes: Sequence[ComputeOp], outputs: Sequence[Operation], lanes: int, copies: int
) -> Schedule:
    """Return the schedule with so many vectors of so many lanes a thread."""
    schedule = te.create_schedule(list(outputs))
    for op in computes:
        stage = schedule[op]
        if op not in outputs:
            stage.compute_inline()
            continue
        axes = list(op.axis)
        every = axes[0] if len(axes) == 1 else stage.fuse(*axes)
        block, each = stage.split(every, factor=_THREADS * lanes * copies)
        copy, each = stage.split(each, factor=_THREADS * lanes)
        thread, lane = stage.split(each, factor=lanes)
        stage.bind(block, te.thread_axis("blockIdx.x"))
        stage.bind(thread, te.thread_axis("threadIdx.x"))
        stage.unroll(copy)
        stage.vectorize(lane)
    return schedule


def _is_wide(schedule: Schedule, tensors: Sequence[Tensor], lanes: int, target: Target) -> bool:
    """Return whether reads and writes are of whole vectors, or of one number for all lanes."""
    lowered = lower_schedule(schedule, tensors, target_kind=target.backend.language)
    nodes = walk(*[kernel.body for kernel in lowered.kernels])
    return all(_fits_vectors(node, lanes) for node in nodes)


def _fits_vectors(node: Node, lanes: int) -> bool:
    """Return False for a store of less than a vector, or a load of no aligned neighbours."""
    match node:
        case Store(indices=(index,)):
            return isinstance(index, Ramp) and index.lanes == lanes
        case Load(indices=(Ramp(base, stride),)):
            return bool(stride == 1) and factor_of(base, {}) % lanes == 0
    return True
