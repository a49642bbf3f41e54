"""Simplification for inference: normalisations become arithmetic, dropout disappears."""

from __future__ import annotations

import numpy as np

from autotune.graph import ops
from autotune.graph.graph import Graph
from autotune.graph.operator import Operator
from autotune.graph.types import Array
from autotune.graph.value import Constant, Node, Value, apply

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
        op = node.op
        return _batch_norm(op, inputs, node.origin) if isinstance(op, ops.BatchNorm) else None

    return graph.rewrite(replaced)


def _simpler(node: Node, inputs: tuple[Value, ...]) -> Value | None:
    match node.op:
        case ops.BatchNorm() as op:
            return _batch_norm(op, inputs, node.origin)
        case ops.Dropout():
            return inputs[0]
        case ops.LayerNorm() as op:
            return _layer_norm(op, inputs, node.origin)
        case ops.RowsFirstAttention() | ops.PackedAttention() as op:
            return _transposed_attention(op, inputs, node.origin)
        case ops.Attention() as op:
            return _attention(op, inputs, node.origin)
    return None


def scalar(value: float, like: Value) -> Constant:
    """Return a constant without dimensions, of the dtype of another value."""
    return Constant.of(np.asarray(value), dtype=like.dtype)


def align_to_axis(vector: Value, axis: int, ndim: int, origin: str = "") -> Value:
    """Give a vector trailing dimensions of 1, so that it broadcasts on an axis."""
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
    data, *vectors = inputs
    used = op.used(vectors)
    axis, ndim = op.axis(op.axis_of_norm, data.type.ndim), data.type.ndim

    def mean(value: Value) -> Value:
        return apply(ops.Mean((axis,), True), value, origin=origin)

    centred = apply(ops.Subtract(), data, mean(data), origin=origin)
    var = mean(apply(ops.Multiply(), centred, centred, origin=origin))
    root = apply(
        ops.Sqrt(), apply(ops.Add(), var, scalar(op.epsilon, var), origin=origin), origin=origin
    )
    out = apply(ops.Divide(), centred, root, origin=origin)
    if "gamma" in used:
        gamma = used["gamma"]
        out = apply(ops.Multiply(), out, align_to_axis(gamma, axis, ndim, origin), origin=origin)
    if "beta" in used:
        beta = used["beta"]
        out = apply(ops.Add(), out, align_to_axis(beta, axis, ndim, origin), origin=origin)
    return out


def _transposed_attention(
    op: ops.RowsFirstAttention | ops.PackedAttention, inputs: tuple[Value, ...], origin: str
) -> Value:
    """Turn inputs and result of attention around, of which the rows come first."""
    if isinstance(op, ops.PackedAttention):
        cuts = [ops.StridedSlice(*each) for each in op.parts(inputs[0].shape)]
        inputs = (*(apply(cut, inputs[0], origin=origin) for cut in cuts), *inputs[1:])
    swap = ops.Transpose((0, 2, 1, 3))
    heads_first = (*(apply(swap, each, origin=origin) for each in inputs[:3]), *inputs[3:])
    plain = ops.Attention(op.causal, op.scale)
    return apply(swap, _attention(plain, heads_first, origin), origin=origin)


def _attention(op: ops.Attention, inputs: tuple[Value, ...], origin: str) -> Value:
    q, k, v, *biases = inputs
    batch, heads, queries, size = q.shape
    kv_heads, keys = k.shape[1:3]

    def matrices(value: Value, rows: int) -> Value:
        """Return a matrix for each head of q."""
        if value is not q and kv_heads < heads:
            group = heads // kv_heads
            value = apply(ops.Reshape((batch, kv_heads, 1, rows, size)), value, origin=origin)
            wide = ops.BroadcastTo((batch, kv_heads, group, rows, size))
            value = apply(wide, value, origin=origin)
        return apply(ops.Reshape((batch * heads, rows, size)), value, origin=origin)

    scores = apply(ops.BatchMatmul(), matrices(q, queries), matrices(k, keys), origin=origin)
    scores = apply(ops.Multiply(), scores, scalar(op.factor(size), scores), origin=origin)
    sees_none = op.causal and queries > keys and not biases
    if biases:
        shape = (batch, heads, queries, keys)
        weights = _biased_softmax(scores, shape, op.causal, biases[0], origin)
    else:
        if op.causal and queries > 1:
            hidden = _hidden(queries, keys, _HIDDEN)[None]
            scores = apply(ops.Add(), scores, Constant.of(hidden, dtype=q.dtype), origin=origin)
        weights = apply(ops.Softmax(-1), scores, origin=origin)
    product = ops.BatchMatmul(transpose_b=False)
    out = apply(product, weights, matrices(v, keys), origin=origin)
    if sees_none:
        rows = (np.arange(queries) >= queries - keys)[None, :, None]
        out = apply(ops.Multiply(), out, Constant.of(rows, dtype=q.dtype), origin=origin)
    return apply(ops.Reshape(q.shape), out, origin=origin)


def _hidden(queries: int, keys: int, number: float) -> Array:
    """Return a number for keys that a query of causal attention does not see, 0 for others."""
    last = np.arange(queries)[:, None] + keys - queries
    return np.where(np.arange(keys) <= last, 0.0, number)


def _biased_softmax(
    scores: Value, shape: tuple[int, ...], causal: bool, bias: Value, origin: str
) -> Value:
    """Return the softmax of scores and a bias, and zeros where all are minus infinity."""

    def made(op: Operator, *inputs: Value) -> Value:
        return apply(op, *inputs, origin=origin)

    kind = "float64" if scores.dtype == "float64" else "float32"
    wide = made(ops.Reshape(shape), scores)
    wide, bias = (x if x.dtype == kind else made(ops.Cast(kind), x) for x in (wide, bias))
    if causal:
        hidden = _hidden(shape[2], shape[3], -np.inf)
        wide = made(ops.Add(), wide, Constant.of(hidden, dtype=kind))
    total = made(ops.Add(), wide, bias)
    highest = made(ops.Max((-1,), True), total)
    highest = made(ops.Maximum(), highest, scalar(-1e30, highest))
    powers = made(ops.Exp(), made(ops.Subtract(), total, highest))
    sums = made(ops.Sum((-1,), True), powers)
    sums = made(ops.Maximum(), sums, scalar(1e-30, sums))
    weights = made(ops.Divide(), powers, sums)
    if scores.dtype != kind:
        weights = made(ops.Cast(scores.dtype), weights)
    return made(ops.Reshape(scores.shape), weights)
