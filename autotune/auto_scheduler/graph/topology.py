"""The topological order of a graph's operations that the auto-scheduler's analysis uses."""

from __future__ import annotations

from collections.abc import Iterable
from heapq import heappop, heappush

from autotune.te.tensor import ComputeOp, Operation, Tensor


def topological_order(tensors: Iterable[Tensor]) -> list[Operation]:
    """Return the operations behind some tensors, each after those that it reads.

    Of those that are ready the one comes first that a walk by a stack, from the tensors to their
    inputs, finds last: TVM's order, on which that of outputs and consumers depends.
    """
    found: dict[Operation, int] = {}
    readers: dict[Operation, list[Operation]] = {}
    missing: dict[Operation, int] = {}
    stack = [tensor.op for tensor in tensors]
    while stack:
        op = stack.pop()
        if op in found:
            continue
        found[op] = len(found)
        missing[op] = len(op.input_tensors)
        for tensor in op.input_tensors:
            readers.setdefault(tensor.op, []).append(op)
            stack.append(tensor.op)
    by_number = list(found)
    ready: list[int] = []
    for op, count in missing.items():
        if not count:
            heappush(ready, -found[op])
    order = []
    while ready:
        op = by_number[-heappop(ready)]
        order.append(op)
        for reader in readers.get(op, ()):
            missing[reader] -= 1
            if not missing[reader]:
                heappush(ready, -found[reader])
    return order


def outputs_of(tensors: Iterable[Tensor]) -> tuple[Operation, ...]:
    """Return the computes behind some tensors that no other one reads, in that order."""
    order = topological_order(tensors)
    read = {tensor.op for op in order for tensor in op.input_tensors}
    return tuple(op for op in order if op not in read and isinstance(op, ComputeOp))
