"""Recognises attention in products of matrices and a softmax."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from autotune.graph import ops
from autotune.graph.ops.reduce import Reduction
from autotune.graph.passes.attention_bias import Bias, added, added_to_heads, times
from autotune.graph.passes.composing import GraphReader, Matched, reshaped, with_scalar
from autotune.graph.types import Array
from autotune.graph.value import Constant, Node, Value, apply

# What is added to scores of keys that are not seen is at most this: its exponential is 0.
_HIDDEN = -1e4
# How far a factor may be from 1 / sqrt(size), and be that in the arithmetic of a dtype.
_ROUNDED = {"float16": 1e-3, "bfloat16": 8e-3}
# Lower bounds of sums of exponentials, and of the largest score, which only rows reach of which no
# key is seen, are these at most.
_LEAST_SUM, _LEAST_SCORE = 1e-20, -1e20
_FLOATS = {"float16", "bfloat16", "float32", "float64"}


@dataclass(frozen=True)
class _Scores:
    """Attention scores: q k^T of matrices, a factor, the mask, and what is added."""

    product: Matched[ops.BatchMatmul]
    scale: float = 1.0
    causal: bool = False
    biases: tuple[Bias, ...] = ()


def attention(reader: GraphReader, node: Node, inputs: tuple[Value, ...]) -> Value | None:
    """Return the attention that a product of the softmax of a product is.

    Between the two there may be a factor, a mask that is known - all keys, or those up to the
    query - what is added, masks that choose between scores and a constant, and reshapes that only
    put heads and batches together.
    """
    if not isinstance(node.op, ops.BatchMatmul) or node.op.transpose_a:
        return None
    scores = _scores(reader, inputs[0])
    if scores is None:
        return None
    q, k = scores.product.inputs
    k = k if scores.product.op.transpose_b else _transposed(reader, k)
    v = _transposed(reader, inputs[1]) if node.op.transpose_b else inputs[1]
    # One matrix for all heads is read by products as it is; here each head has its own.
    if not q.shape[0] == k.shape[0] == v.shape[0] == node.output.shape[0] or k.shape != v.shape:
        return None
    # Scores may be in wider floats than values: the operator has one dtype.
    if len({each.dtype for each in (q, k, v, node.output)}) > 1:
        return None
    if scores.causal and q.shape[1] > k.shape[1]:
        return None  # queries that see no key get zeros there, and here the mean of all
    (q, more), (k, most) = (_unscaled(reader, each) for each in (q, k))
    scale, usual = scores.scale * more * most, q.shape[2] ** -0.5
    near = abs(scale / usual - 1) < _ROUNDED.get(q.dtype, 1e-6)
    op = ops.Attention(scores.causal, None if near else scale)
    heads = _heads(reader, q, k, v)
    bias = added_to_heads(scores.biases, heads[0])
    made = reader.composed(op, *heads, *bias)
    return None if made is None else reshaped(made, node.output.shape)


def _past_reshapes(reader: GraphReader, value: Value, uses: int = 1) -> Value | None:
    """Return a value before reshapes that keep its matrices, and casts from one float to another.

    None where it is read by others than the ``uses`` that are known. Kernels compute scores in
    float32, and round their exponentials as such casts do.
    """
    while reader.is_read(value, uses):
        uses = 1
        shaped, cast = reader.made_by(value, ops.Reshape), reader.made_by(value, ops.Cast)
        moved = shaped or cast
        if moved is None:
            return value
        before = moved.inputs[0]
        if before.shape[-2:] != value.shape[-2:]:
            return None
        if not {before.dtype, value.dtype} <= _FLOATS:
            return None
        value = before
    return None


def _scores(reader: GraphReader, weights: Value) -> _Scores | None:
    """Return the scores of which ``weights`` are the softmax."""
    before = _past_reshapes(reader, weights)
    value, uses = _softmax_of(reader, before) if before else (None, 0)
    scale, causal, biases = 1.0, False, list[Bias]()
    while value is not None and (now := _past_reshapes(reader, value, uses)) is not None:
        uses = 1
        if product := reader.made_by(now, ops.BatchMatmul):
            if product.op.transpose_a:
                return None
            return _Scores(product, scale, causal, tuple(biases))
        if found := _factor(reader, now):
            value, scale = found[0], scale * found[1]
        elif masked := _masked(reader, now):
            value, causal = masked[0], causal or masked[1]
        elif more := added(reader, now):
            value = more[0]
            biases.append(times(more[1], scale))
        else:
            return None
    return None


def _softmax_of(reader: GraphReader, value: Value) -> tuple[Value | None, int]:
    """Return what ``value`` is the softmax of, along the last axis, and how often that reads it.

    Rows of minus infinity may be zeros in it, where bounds keep their sums from being so.
    """
    if softmax := reader.made_by(value, ops.Softmax):
        last = softmax.op.axis_of_sum in (-1, value.type.ndim - 1)
        found = last and not isinstance(softmax.op, ops.LogSoftmax)
        return (softmax.inputs[0], 1) if found else (None, 0)
    quotient = reader.made_by(value, ops.Divide)
    powers, total = quotient.inputs if quotient else (value, value)
    power = reader.made_by(powers, ops.Exp)
    difference = reader.made_by(power.inputs[0], ops.Subtract) if power else None
    if difference is None or _along_last(reader, total, ops.Sum, _LEAST_SUM) is not powers:
        return None, 0
    scores, highest = difference.inputs
    largest = _along_last(reader, highest, ops.Max, _LEAST_SCORE)
    return (scores, 2) if largest is scores else (None, 0)


def _along_last(
    reader: GraphReader, value: Value, kind: type[Reduction], most: float
) -> Value | None:
    """Return what is reduced along its last axis, which is kept, up to a lower bound."""
    bound = reader.made_by(value, ops.Maximum)
    parts = with_scalar(bound.inputs) if bound else None
    made = reader.made_by(parts[0] if parts and parts[1] <= most else value, kind)
    if made is None or not made.op.keepdims:
        return None
    before = made.inputs[0]
    return before if made.op.over(before.type.ndim) == (before.type.ndim - 1,) else None


def _factor(reader: GraphReader, value: Value) -> tuple[Value, float] | None:
    """Return what is multiplied or divided by a positive number, and the factor."""
    product = reader.made_by(value, ops.Multiply)
    quotient = reader.made_by(value, ops.Divide)
    found = product or quotient
    parts = with_scalar(found.inputs) if found else None
    if parts is None or not 0 < parts[1] < math.inf:
        return None
    if product:
        return parts
    return (parts[0], 1 / parts[1]) if found and parts[0] is found.inputs[0] else None


def _masked(reader: GraphReader, value: Value) -> tuple[Value, bool] | None:
    """Return scores before a mask, and whether it is causal; None of masks that are neither."""
    if chosen := reader.made_by(value, ops.Where):
        condition, scores, other = chosen.inputs
        if not isinstance(condition, Constant) or not isinstance(other, Constant):
            return None
        kept = condition.array != 0
        if (other.array[~kept] > _HIDDEN).any():
            return None  # scores that are replaced by others, such as 0, are not hidden
        hidden = np.where(kept, 0.0, other.array)
    else:
        total = reader.made_by(value, ops.Add)
        pairs = (total.inputs, total.inputs[::-1]) if total else ()
        found = next(((a, b) for a, b in pairs if isinstance(b, Constant)), None)
        if found is None or found[0].shape != value.shape:
            return None
        scores, hidden = found[0], found[1].array
    queries, keys = value.shape[-2:]
    seen = _seen(hidden, queries, keys)
    if seen is None:
        return None
    if seen.all():
        return scores, False
    last = np.arange(queries)[:, None] + keys - queries
    return (scores, True) if (seen == (np.arange(keys) <= last)).all() else None


def _seen(hidden: Array, queries: int, keys: int) -> Array | None:
    """Return which keys each query sees, if a mask adds 0 or hides, and the same for all heads."""
    if not ((hidden == 0) | (hidden <= _HIDDEN)).all():
        return None
    wide = np.broadcast_to(hidden, (*hidden.shape[:-2], queries, keys)).reshape(-1, queries, keys)
    seen = wide == 0
    return seen[0] if (seen == seen[:1]).all() else None


def _transposed(reader: GraphReader, value: Value) -> Value:
    """Return matrices transposed; an earlier transpose is undone."""
    moved = reader.made_by(value, ops.Reshape)
    if moved is not None and moved.inputs[0].shape[-2:] == value.shape[-2:]:
        transposed = _transposed(reader, moved.inputs[0])
        return reshaped(transposed, (*value.shape[:-2], *value.shape[:-3:-1]))
    rank = value.type.ndim
    last = (*range(rank - 2), rank - 1, rank - 2)
    before = reader.made_by(value, ops.Transpose)
    if before is None:
        return apply(ops.Transpose(last), value)
    given = before.op.axes or tuple(reversed(range(rank)))
    axes = tuple(given[i] % rank for i in last)
    if axes == tuple(range(rank)):
        return before.inputs[0]
    return apply(ops.Transpose(axes), before.inputs[0])


def _unscaled(reader: GraphReader, value: Value) -> tuple[Value, float]:
    """Return a value without the number that it is multiplied by, and that number."""
    if not reader.is_read_once(value):
        return value, 1.0
    if found := _factor(reader, value):
        return found
    transposed, seen = reader.made_by(value, ops.Transpose), reader.made_by(value, ops.Reshape)
    moved = transposed or seen
    if moved is None:
        return value, 1.0
    inner, factor = _unscaled(reader, moved.inputs[0])
    return (value, 1.0) if factor == 1 else (apply(moved.op, inner), factor)


def _heads(reader: GraphReader, q: Value, k: Value, v: Value) -> tuple[Value, Value, Value]:
    """Return operands with a dimension for heads: as they were before they became matrices."""
    keys, values = _shared(reader, k), _shared(reader, v)
    if keys is not None and values is not None and keys.shape == values.shape:
        batch = keys.shape[0]
        queries = reshaped(q, (batch, q.shape[0] // batch, *q.shape[1:]))
        return queries, keys, values
    before = [reader.made_by(each, ops.Reshape) for each in (q, k, v)]
    apart = [
        _in_four(reader, made.inputs[0])
        for made in before
        if made
        and made.inputs[0].type.ndim >= 4
        and made.inputs[0].shape[-2:] == made.output.shape[1:]
    ]
    alike = len({each.shape[:-2] for each in apart}) == 1
    if len(apart) == 3 and alike and apart[0].type.ndim == 4:
        return apart[0], apart[1], apart[2]
    wide = [_batch_of_one(reader, each) for each in (q, k, v)]
    return wide[0], wide[1], wide[2]


def _in_four(reader: GraphReader, value: Value) -> Value:
    """Return a value of more dimensions as one of four, without some that are 1.

    A transpose stays the last that is done, for `compose_heads`.
    """
    spare, moved = value.type.ndim - 4, reader.made_by(value, ops.Transpose)
    ones = [i for i, n in enumerate(value.shape[:-2]) if n == 1][::-1][:spare]
    if not spare or len(ones) < spare:
        return value
    kept = [i for i in range(value.type.ndim) if i not in ones]
    shape = tuple(value.shape[i] for i in kept)
    if moved is None:
        return reshaped(value, shape)
    order, before = moved.op.order(value.type.ndim), moved.inputs[0]
    left = sorted(order[i] for i in kept)
    seen = reshaped(before, tuple(before.shape[i] for i in left))
    axes = tuple(left.index(order[i]) for i in kept)
    return apply(ops.Transpose(axes), seen)


def _batch_of_one(reader: GraphReader, value: Value) -> Value:
    """Return matrices as those of a batch of one; a transpose stays the last that was done."""
    moved = reader.made_by(value, ops.Transpose)
    if moved is None or moved.op.axes is None:
        return reshaped(value, (1, *value.shape))
    before = moved.inputs[0]
    axes = (0, *[axis % before.type.ndim + 1 for axis in moved.op.axes])
    return apply(ops.Transpose(axes), reshaped(before, (1, *before.shape)))


def _shared(reader: GraphReader, value: Value) -> Value | None:
    """Return keys or values that were repeated for the heads that share them, before that."""
    wide = reader.made_by(_before_shapes(reader, value), ops.BroadcastTo)
    if wide is None or wide.output.type.ndim != 5:
        return None
    batch, heads, _, rows, size = wide.output.shape
    each = wide.inputs[0]
    if each.shape != (batch, heads, 1, rows, size) or (rows, size) != value.shape[1:]:
        return None
    one = reader.made_by(each, ops.ExpandDims)
    before = one.inputs[0] if one else each
    return reshaped(before, (batch, heads, rows, size))


def _before_shapes(reader: GraphReader, value: Value) -> Value:
    """Return a value as it was before reshapes."""
    while (made := reader.made_by(value, ops.Reshape)) is not None:
        value = made.inputs[0]
    return value
