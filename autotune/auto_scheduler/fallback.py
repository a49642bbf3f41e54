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

from collections.abc import Mapping, Sequence

from autotune import te
from autotune.auto_scheduler.fallback_cpu import cpu_stage, window_stage
from autotune.auto_scheduler.fallback_gpu import gpu_stage
from autotune.auto_scheduler.fallback_loops import UNROLLED, WINDOW_AXES, are_vars, size_of
from autotune.auto_scheduler.fallback_maps import map_schedule
from autotune.auto_scheduler.search.untuned import untuned_schedule
from autotune.ir import Conditional, reads_in
from autotune.target import Target
from autotune.te.dag import post_order
from autotune.te.schedule import Schedule
from autotune.te.tensor import ComputeOp, Operation, Tensor

# Reads of the text of one element, at most: it doubles with each stage that is read twice.
_LONGEST_TEXT = 512


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
            window_stage(schedule, op, paddings[op])
        else:
            (gpu_stage if on_gpu else cpu_stage)(schedule, op, sums)
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
        small = reader.reduce_axis and size_of(reader.reduce_axis) <= UNROLLED
        if small and reads == {op} and len(reader.axis) > WINDOW_AXES and len(reader.body) == 1:
            found[reader] = op
    return found


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
            same = list(load.indices) == own or are_vars(load.indices, own)
            if load.tensor.op not in found:
                continue
            through = list(found[reader]) if reader in inlined else [(reader, True)]
            found[load.tensor.op] |= {(user, same and exact): None for user, exact in through}
    return {op: list(users) for op, users in found.items()}


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
