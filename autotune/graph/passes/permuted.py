"""Operators on tensors whose axes are in another order."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from autotune.graph import ops
from autotune.graph.operator import Operator


def permuted(op: Operator, order: Sequence[int], shape: Sequence[int]) -> Operator | None:
    """Return what computes a result with its axes in another order from such inputs.

    Args:
        op: the operator in the old order.
        order: of each axis in the new order, which it was; for inputs and result alike.
        shape: extents of the first input in the old order.

    Returns:
        The operator; None if it has none, or is not known here.
    """
    rank = len(order)
    if isinstance(op, ops.Elementwise | ops.Broadcast | ops.Cast | ops.QuantisedAdd):
        return op
    if isinstance(op, ops.Concatenate | ops.Quantize | ops.Dequantize):
        return replace(op, along=order.index(op.axis(op.along, rank)))
    if isinstance(op, ops.Reduction) and op.keepdims:
        return replace(op, axes=tuple([order.index(axis) for axis in op.over(rank)]))
    if isinstance(op, ops.Pad):
        return replace(op, pad_width=tuple([op.pad_width[axis] for axis in order]))
    if isinstance(op, ops.StridedSlice):
        begin, end = (*op.begin, *[0] * rank), (*op.end, *shape[len(op.end) :])
        steps = (*op.strides, *[1] * rank)
        every = [(begin[axis], end[axis], steps[axis]) for axis in order]
        return ops.StridedSlice(*[tuple(each) for each in zip(*every, strict=True)])
    return None
