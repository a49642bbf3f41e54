"""Simplification for inference: normalisations become arithmetic, dropout disappears."""

from __future__ import annotations

import numpy as np

from autotune.graph import ops
from autotune.graph.graph import Graph
from autotune.graph.operator import Operator
from autotune.graph.types import Array
from autotune.graph.value import Constant, Node, Value, apply, made_at

# Added to scores of keys that are not seen: 16-bit floats hold it, and its exponential is 0.
_HIDDEN = -30000.0


def simplify_inference(graph: Graph) -> Graph:
    """Replace batch norms by a product and a sum, layer norms by arithmetic, dropouts by nothing.

    Attention becomes products of matrices and a softmax. `compose` makes operators again of what
    templates compute.

    A batch norm becomes ``x * s + t`` with ``s = gamma / sqrt(var + eps)`` and
    ``t = beta - mean * s``, as TVM's pass of this name does.
    """
    return graph.rewrite(_simpler)


def without_batch_norms(graph: Graph) -> Graph:
    """Replace batch norms by a product and a sum, and leave everything else."""

    def replaced(node: Node, inputs: tuple[Value, ...]) -> Value | None:
        if not isinstance(node.op, ops.BatchNorm):
            return None
        with made_at(node.origin):
            return _batch_norm(node.op, inputs)

    return graph.rewrite(replaced)


def _simpler(node: Node, inputs: tuple[Value, ...]) -> Value | None:
    with made_at(node.origin):
        return _of_simpler_operators(node.op, inputs)


def _of_simpler_operators(op: Operator, inputs: tuple[Value, ...]) -> Value | None:
    match op:
        case ops.BatchNorm():
            return _batch_norm(op, inputs)
        case ops.Dropout():
            return inputs[0]
        case ops.LayerNorm():
            return _layer_norm(op, inputs)
        case ops.RowsFirstAttention() | ops.PackedAttention():
            return _transposed_attention(op, inputs)
        case ops.Attention():
            return _attention(op, inputs)
    return None


def scalar(value: float, like: Value) -> Constant:
    """Return a constant without dimensions, of the dtype of another value."""
    return Constant.of(np.asarray(value), dtype=like.dtype)


def align_to_axis(vector: Value, axis: int, ndim: int) -> Value:
    """Give a vector trailing dimensions of 1, so that it broadcasts on an axis."""
    more = ndim - 1 - axis
    return apply(ops.ExpandDims(1, more), vector) if more else vector


def _batch_norm(op: ops.BatchNorm, inputs: tuple[Value, ...]) -> Value:
    data, gamma, beta, mean, var = inputs
    axis, ndim = op.axis(op.channel_axis, data.type.ndim), data.type.ndim
    scale = scalar(1, var) / apply(ops.Sqrt(), var + scalar(op.epsilon, var))
    if op.scale:
        scale = scale * gamma
    shift = -mean * scale
    if op.center:
        shift = shift + beta
    return data * align_to_axis(scale, axis, ndim) + align_to_axis(shift, axis, ndim)


def _layer_norm(op: ops.LayerNorm, inputs: tuple[Value, ...]) -> Value:
    data, *vectors = inputs
    used = op.used(vectors)
    axis, ndim = op.axis(op.axis_of_norm, data.type.ndim), data.type.ndim

    def mean(value: Value) -> Value:
        return apply(ops.Mean((axis,), True), value)

    centred = data - mean(data)
    var = mean(centred * centred)
    out = centred / apply(ops.Sqrt(), var + scalar(op.epsilon, var))
    if "gamma" in used:
        out = out * align_to_axis(used["gamma"], axis, ndim)
    if "beta" in used:
        out = out + align_to_axis(used["beta"], axis, ndim)
    return out


def _transposed_attention(
    op: ops.RowsFirstAttention | ops.PackedAttention, inputs: tuple[Value, ...]
) -> Value:
    """Turn inputs and result of attention around, of which the rows come first."""
    if isinstance(op, ops.PackedAttention):
        cuts = [ops.StridedSlice(*each) for each in op.parts(inputs[0].shape)]
        inputs = (*(apply(cut, inputs[0]) for cut in cuts), *inputs[1:])
    swap = ops.Transpose((0, 2, 1, 3))
    heads_first = (*(apply(swap, each) for each in inputs[:3]), *inputs[3:])
    plain = ops.Attention(op.causal, op.scale)
    return apply(swap, _attention(plain, heads_first))


def _attention(op: ops.Attention, inputs: tuple[Value, ...]) -> Value:
    q, k, v, *biases = inputs
    batch, heads, queries, size = q.shape
    kv_heads, keys = k.shape[1:3]

    def matrices(value: Value, rows: int) -> Value:
        """Return a matrix for each head of q."""
        if value is not q and kv_heads < heads:
            group = heads // kv_heads
            value = apply(ops.Reshape((batch, kv_heads, 1, rows, size)), value)
            wide = ops.BroadcastTo((batch, kv_heads, group, rows, size))
            value = apply(wide, value)
        return apply(ops.Reshape((batch * heads, rows, size)), value)

    scores = apply(ops.BatchMatmul(), matrices(q, queries), matrices(k, keys))
    scores = scores * scalar(op.factor(size), scores)
    sees_none = op.causal and queries > keys and not biases
    if biases:
        shape = (batch, heads, queries, keys)
        weights = _biased_softmax(scores, shape, op.causal, biases[0])
    else:
        if op.causal and queries > 1:
            hidden = _hidden(queries, keys, _HIDDEN)[None]
            scores = scores + Constant.of(hidden, dtype=q.dtype)
        weights = apply(ops.Softmax(-1), scores)
    product = ops.BatchMatmul(transpose_b=False)
    out = apply(product, weights, matrices(v, keys))
    if sees_none:
        rows = (np.arange(queries) >= queries - keys)[None, :, None]
        out = out * Constant.of(rows, dtype=q.dtype)
    return apply(ops.Reshape(q.shape), out)


def _hidden(queries: int, keys: int, number: float) -> Array:
    """Return a number for keys that a query of causal attention does not see, 0 for others."""
    last = np.arange(queries)[:, None] + keys - queries
    return np.where(np.arange(keys) <= last, 0.0, number)


def _biased_softmax(scores: Value, shape: tuple[int, ...], causal: bool, bias: Value) -> Value:
    """Return the softmax of scores and a bias, and zeros where all are minus infinity."""
    kind = "float64" if scores.dtype == "float64" else "float32"
    wide = apply(ops.Reshape(shape), scores)
    wide, bias = (x if x.dtype == kind else x.astype(kind) for x in (wide, bias))
    if causal:
        wide = wide + Constant.of(_hidden(shape[2], shape[3], -np.inf), dtype=kind)
    total = wide + bias
    highest = apply(ops.Max((-1,), True), total)
    highest = apply(ops.Maximum(), highest, scalar(-1e30, highest))
    powers = apply(ops.Exp(), total - highest)
    sums = apply(ops.Sum((-1,), True), powers)
    weights = powers / apply(ops.Maximum(), sums, scalar(1e-30, sums))
    if scores.dtype != kind:
        weights = weights.astype(scores.dtype)
    return apply(ops.Reshape(scores.shape), weights)
