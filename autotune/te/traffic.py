"""Counts the bytes that a graph of computes reads and writes."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable

from autotune.ir import ProducerLoad, Visitor
from autotune.ir.dtype import bits_of
from autotune.te.dag import post_order
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
    reads = _Reads(arguments).elements
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


class _Reads(Visitor):
    """Counts the reads of each tensor's elements, with repeated reads of an element."""

    def __init__(self, arguments: Iterable[Tensor]) -> None:
        self.elements: defaultdict[Tensor, float] = defaultdict(float)
        for op in post_order(tensor.op for tensor in arguments):
            if isinstance(op, ComputeOp):
                extents = [extent_of(axis) for axis in op.root_iter_vars]
                self._iterations = math.prod(math.inf if n is None else n for n in extents)
                for value in op.body:
                    self.visit(value)

    def visit_ProducerLoad(self, node: ProducerLoad) -> None:
        """Count one load in each iteration, and those of its indices."""
        self.elements[node.tensor] += self._iterations
        self.generic(node)
