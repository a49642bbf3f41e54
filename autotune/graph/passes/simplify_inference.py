"""What training needs and inference does not: normalisations become arithmetic."""

from __future__ import annotations

import numpy as np

from autotune.graph import ops
from autotune.graph.graph import Graph
from autotune.graph.value import Constant, Node, Value, apply


def simplify_inference(graph: Graph) -> Graph:
    """Replace batch norms by a product and a sum, layer norms by arithmetic, dropouts by nothing.

    A batch norm becomes ``x * s + t`` with ``s = gamma / sqrt(var + eps)`` and
    ``t = beta - mean * s``, as TVM's pass of this name does.
    """
    return graph.rewrite(_simpler)


def _simpler(node: Node, inputs: tuple[Value, ...]) -> Value | None:
    match node.op:
        case ops.BatchNorm() as op:
            return _batch_norm(op, inputs, node.origin)
        case ops.Dropout():
            return inputs[0]
        case ops.LayerNorm() as op:
            return _layer_norm(op, inputs, node.origin)
    return None


def scalar(value: float, like: Value) -> Constant:
    """Return a constant without dimensions, of the dtype of another value."""
    return Constant.of(np.asarray(value), dtype=like.dtype)


def align_to_axis(vector: Value, axis: int, ndim: int, origin: str = "") -> Value:
    """Give a vector trailing dimensions of 1, so that it meets data on an axis."""
    more = ndim - 1 - axis
    return apply(ops.ExpandDims(1, more), vector, origin=origin) if more else vector


def _batch_norm(op: ops.BatchNorm, inputs: tuple[Value, ...], origin: str) -> Value:
    data, gamma, beta, mean, var = inputs
    axis, ndim = op.axis(op.channel_axis, data.type.ndim), data.type.ndim
    shifted = apply(ops.Add(), var, scalar(op.epsilon, var), origin=origin)
    root = apply(ops.Sqrt(), shifted, origin=origin)
    scale = apply(ops.Divide(), scalar(1, var), root, origin=origin)
    if op.scale:
        scale = apply(ops.Multiply(), scale, gamma, origin=origin)
    negative = apply(ops.Negative(), mean, origin=origin)
    shift = apply(ops.Multiply(), negative, scale, origin=origin)
    if op.center:
        shift = apply(ops.Add(), shift, beta, origin=origin)
    scaled = apply(ops.Multiply(), data, align_to_axis(scale, axis, ndim, origin), origin=origin)
    return apply(ops.Add(), scaled, align_to_axis(shift, axis, ndim, origin), origin=origin)


def _layer_norm(op: ops.LayerNorm, inputs: tuple[Value, ...], origin: str) -> Value:
    data, gamma, beta = inputs
    axis, ndim = op.axis(op.axis_of_norm, data.type.ndim), data.type.ndim

    def mean(value: Value) -> Value:
        return apply(ops.Mean((axis,), True), value, origin=origin)

    centred = apply(ops.Subtract(), data, mean(data), origin=origin)
    var = mean(apply(ops.Multiply(), centred, centred, origin=origin))
    root = apply(
        ops.Sqrt(), apply(ops.Add(), var, scalar(op.epsilon, var), origin=origin), origin=origin
    )
    out = apply(ops.Divide(), centred, root, origin=origin)
    if op.scale:
        out = apply(ops.Multiply(), out, align_to_axis(gamma, axis, ndim, origin), origin=origin)
    if op.center:
        out = apply(ops.Add(), out, align_to_axis(beta, axis, ndim, origin), origin=origin)
    return out
