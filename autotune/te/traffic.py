"""Counts the bytes that a graph of computes reads and writes."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable

from autotune.ir import reads_in
from autotune.ir.dtype import bits_of
from autotune.te.dag import post_order
from autotune.te.extern import ExternOp
from autotune.te.relation import extent_of
from autotune.te.tensor import ComputeOp, Tensor


def compute_bytes(tensors: Iterable[Tensor]) -> int:
    """Return the bytes that every kernel with these arguments moves at least.

    Each element of an output counts once. So does each of an input, unless the computes read
    fewer than it has, as a slice or a gather does: then as many as they read.

    Returns:
        The bytes; 0 where the shape of an argument is not known.
    """
    arguments = tuple(tensors)
    if any(isinstance(op, ExternOp) for op in post_order(each.op for each in arguments)):
        return 0  # what its statements read is not known
    reads = _reads_of_each(arguments)
    total = 0
    for tensor in arguments:
        extents = [n for n in tensor.shape if isinstance(n, int)]
        if len(extents) < len(tensor.shape):
            return 0
        elements: float = math.prod(extents)
        if not isinstance(tensor.op, ComputeOp):
            elements = min(elements, reads[tensor])
        total += int(elements) * ((bits_of(tensor.dtype) + 7) // 8)
    return total


def _reads_of_each(arguments: Iterable[Tensor]) -> dict[Tensor, float]:
    """Return how often elements of each tensor are read, with repeated reads of an element."""
    elements: defaultdict[Tensor, float] = defaultdict(float)
    for op in post_order(tensor.op for tensor in arguments):
        if isinstance(op, ComputeOp):
            extents = [extent_of(axis) for axis in op.root_iter_vars]
            iterations = math.prod(math.inf if n is None else n for n in extents)
            for load in reads_in(*op.body):
                elements[load.tensor] += iterations
    return elements
