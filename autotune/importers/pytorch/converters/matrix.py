"""Products of matrices, and attention."""

from __future__ import annotations

import math

import numpy as np

from autotune.graph import Constant, Value, ops
from autotune.importers.pytorch.call import Call, Operand, converts


@converts("linear")
def linear(call: Call, x: Value, weight: Value, bias: Value | None = None) -> Value:
    """Multiply rows by the transpose of a weight, and add a bias."""
    rows = call.reshape(x, (math.prod(x.shape[:-1]), x.shape[-1]))
    outputs = weight.shape[0] if weight.type.ndim == 2 else 1
    product = call.apply(ops.Dense(), rows, call.reshape(weight, (outputs, x.shape[-1])))
    if bias is not None:
        product = call.apply(ops.Add(), product, bias)
    return call.reshape(product, call.type.shape)


@converts("mm", "bmm", "matmul", "mv", "dot")
def matmul(call: Call, a: Value, b: Value, *_: object) -> Value:
    """Multiply matrices, in batches that broadcast; vectors are rows or columns."""
    first = call.reshape(a, (1, *a.shape)) if a.type.ndim == 1 else a
    second = call.reshape(b, (*b.shape, 1)) if b.type.ndim == 1 else b
    return call.reshape(_product(call, first, second), call.type.shape)


def _product(call: Call, a: Value, b: Value) -> Value:
    """Multiply matrices of two dimensions or more."""
    (rows, depth), columns = a.shape[-2:], b.shape[-1]
    batch = np.broadcast_shapes(a.shape[:-2], b.shape[:-2])
    if math.prod(b.shape[:-2]) == 1:
        flat = call.reshape(a, (math.prod(a.shape[:-1]), depth))
        weight = call.transpose(call.reshape(b, (depth, columns)), (1, 0))
        return call.reshape(call.apply(ops.Dense(), flat, weight), (*batch, rows, columns))
    count = math.prod(batch)
    one = math.prod(a.shape[:-2]) == 1
    wide = a if one else call.expand(a, (*batch, rows, depth))
    wide = call.reshape(wide, (1 if one else count, rows, depth))
    b = call.expand(b, (*batch, depth, columns))
    transposed = as_it_was(b)
    if transposed is not None:  # the last two dimensions were exchanged: read it as it was
        other = call.reshape(transposed, (count, columns, depth))
        product = call.apply(ops.BatchMatmul(), wide, other)
    else:
        other = call.reshape(b, (count, depth, columns))
        product = call.apply(ops.BatchMatmul(transpose_b=False), wide, other)
    return call.reshape(product, (*batch, rows, columns))


def as_it_was(value: Value) -> Value | None:
    """Return the matrices of which a value is the transpose, if it is made so."""
    node = getattr(value, "node", None)
    if node is None or not isinstance(node.op, ops.Transpose) or node.op.axes is None:
        return None
    rank = value.type.ndim
    last = (*range(rank - 2), rank - 1, rank - 2)
    return node.inputs[0] if tuple(a % rank for a in node.op.axes) == last else None


@converts("addmm", "baddbmm", "addmv")
def add_product(
    call: Call, x: Value, a: Value, b: Value, beta: Operand = 1, alpha: Operand = 1
) -> Value:
    """Add a product of matrices to a tensor."""
    dtype = call.type.dtype
    product = matmul(call, a, b)
    if alpha != 1:
        product = call.binary(ops.Multiply, product, alpha, dtype)
    if beta == 0:
        return product
    other = x if beta == 1 else call.binary(ops.Multiply, x, beta, dtype)
    return call.binary(ops.Add, product, other, dtype)


@converts("scaled_dot_product_attention")
def attention(
    call: Call,
    q: Value,
    k: Value,
    v: Value,
    mask: Value | None = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    scale: float | None = None,
    enable_gqa: bool = False,
) -> Value:
    """Compute attention: as one operator, or as products where values have their own size."""
    if dropout_p:
        call.refuse("dropout_p", "0: call model.eval() first", dropout_p)
    batch = np.broadcast_shapes(q.shape[:-3], k.shape[:-3], v.shape[:-3])
    count = math.prod(batch)

    def heads(value: Value) -> Value:
        if value.type.ndim < 3:
            return call.reshape(value, (1, 1, *value.shape))
        wide = call.expand(value, (*batch, *value.shape[-3:]))
        return call.reshape(wide, (count, *value.shape[-3:]))

    q, k, v = heads(q), heads(k), heads(v)
    if not enable_gqa:
        each = np.broadcast_shapes(q.shape[1:2], k.shape[1:2], v.shape[1:2])
        q, k, v = (call.expand(x, (x.shape[0], *each, *x.shape[2:])) for x in (q, k, v))
    queries, keys = q.shape[2], k.shape[2]
    is_causal = is_causal or _is_causal(mask, queries, keys)
    if mask is not None and (_hides_nothing(mask) or _is_causal(mask, queries, keys)):
        mask = None
    if k.shape == v.shape and (not is_causal or queries == keys):
        bias = () if mask is None else (_bias(call, mask, (*batch, q.shape[1]), keys, q.dtype),)
        made = call.apply(ops.Attention(is_causal, scale), q, k, v, *bias)
    else:
        made = _with_mask(call, q, k, v, mask, is_causal, scale)
    return call.reshape(made, call.type.shape)


def _bias(call: Call, mask: Value, outer: tuple[int, ...], keys: int, dtype: str) -> Value:
    """Return a mask as what is added to scores: (batch, heads, queries, keys) or 1 in their place.

    Args:
        mask: what is added, or whether keys are seen; broadcasts to the scores of ``outer``, which
            are batches and then heads.
    """
    if mask.dtype == "bool":
        ends = [call.constant(np.full(mask.shape, x), dtype) for x in (0.0, -math.inf)]
        mask = call.apply(ops.Where(), mask, *ends)
    elif mask.dtype != dtype:
        mask = call.cast(mask, "float64" if dtype == "float64" else "float32")
    shape = (1,) * (len(outer) + 2 - mask.type.ndim) + mask.shape
    batch = shape[: len(outer) - 1]
    if math.prod(batch) > 1:
        batch = outer[:-1]
    wide = (*batch, *shape[len(outer) - 1 : -1], keys)
    if wide != shape:
        mask = call.expand(call.reshape(mask, shape), wide)
    return call.reshape(mask, (math.prod(batch), *wide[-3:]))


def _hides_nothing(mask: Value | None) -> bool:
    if not isinstance(mask, Constant):
        return False
    return bool(mask.array.all() if mask.dtype == "bool" else not mask.array.any())


def _is_causal(mask: Value | None, queries: int, keys: int) -> bool:
    """Return whether a mask is known to hide from each query the keys behind it, and no others."""
    if not isinstance(mask, Constant) or queries != keys or mask.shape[-2:] != (queries, keys):
        return False
    numbers = mask.array.reshape(-1, queries, keys)
    if mask.dtype == "bool":
        seen = numbers
    else:
        wide = numbers.astype("float32")
        if not ((wide == 0) | (wide <= -3e4)).all():
            return False
        seen = wide == 0
    return bool((seen == np.tri(queries, dtype=bool)).all())


def _with_mask(
    call: Call, q: Value, k: Value, v: Value, mask: Value | None, is_causal: bool,
    scale: float | None,
) -> Value:  # fmt: skip
    """Write attention as products and a softmax; queries that see no key get zeros."""
    (count, heads, queries, size), dtype = q.shape, q.dtype
    keys, width = k.shape[2], v.shape[3]

    def matrices(value: Value) -> Value:
        _, own, rows, columns = value.shape
        if own < heads:
            value = call.reshape(value, (count, own, 1, rows, columns))
            value = call.expand(value, (count, own, heads // own, rows, columns))
        return call.reshape(value, (count * heads, rows, columns))

    scores = call.apply(ops.BatchMatmul(), matrices(q), matrices(k))
    factor = size**-0.5 if scale is None else float(scale)
    kind = "float32" if dtype in ("float16", "bfloat16") else dtype
    scores = call.cast(call.reshape(scores, (count, heads, queries, keys)), kind)
    scores = call.binary(ops.Multiply, scores, factor, kind)
    hidden = call.constant(-math.inf, kind)
    if is_causal:
        seen = call.constant(np.tri(queries, keys, dtype=bool))
        scores = _hidden(call, seen, scores, hidden)
    if mask is not None and mask.dtype == "bool":
        scores = _hidden(call, mask, scores, hidden)
    elif mask is not None:
        scores = call.binary(ops.Add, scores, mask, kind)
    weights = _softmax_or_zero(call, scores)
    weights = call.reshape(call.cast(weights, dtype), (count * heads, queries, keys))
    product = call.apply(ops.BatchMatmul(transpose_b=False), weights, matrices(v))
    return call.reshape(product, (count, heads, queries, width))


def _hidden(call: Call, seen: Value, scores: Value, hidden: Value) -> Value:
    parts = [call.expand(each, scores.shape) for each in (seen, scores, hidden)]
    return call.apply(ops.Where(), *parts)


def _softmax_or_zero(call: Call, scores: Value) -> Value:
    """Return the softmax along the last axis, and zeros where all scores are minus infinity."""
    lowest = call.constant(-1e30, scores.dtype)
    highest = call.apply(ops.Max((-1,), True), scores)
    highest = call.apply(ops.Maximum(), highest, lowest)
    powers = call.apply(ops.Exp(), call.apply(ops.Subtract(), scores, highest))
    total = call.apply(ops.Sum((-1,), True), powers)
    total = call.apply(ops.Maximum(), total, call.constant(1e-30, scores.dtype))
    return call.apply(ops.Divide(), powers, total)
