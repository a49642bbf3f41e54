"""Attention, and positions by rotation."""

from __future__ import annotations

from autotune.graph import Value, ops
from autotune.importers.onnx.call import Call, Converter, Operand
from autotune.importers.onnx.operators.indexing import taken
from autotune.importers.onnx.operators.shapes import part


def _heads(call: Call, x: Value, name: str) -> Value:
    """Return data as (batch, heads, rows, size): in three dimensions heads are side by side."""
    if x.type.ndim == 4:
        return x
    heads = call.attribute(name, 0)
    if x.type.ndim != 3 or heads < 1 or x.shape[2] % heads:
        call.refuse(
            f"expected 3 or 4 dimensions and {name} that divides the last one, got {x.type}"
        )
    batch, rows, columns = x.shape
    apart = call.reshape(x, (batch, rows, heads, columns // heads))
    return call.transpose(apart, (0, 2, 1, 3))


def _attention(call: Call) -> Operand:
    """Return attention as one operator, where it has neither mask nor cap, nor gives scores.

    Else ONNX's definition by products and a softmax is used.
    """
    causal, more = bool(call.attribute("is_causal", 0)), [call.has(i) for i in range(3, 7)]
    windows = [call.attribute(f"{side}_window_size", -1) for side in ("left", "right")]
    scores = len(call.node.outputs) > 1
    if any(more) or scores or call.attribute("softcap", 0.0) or max(windows) >= 0:
        return NotImplemented
    q = _heads(call, call.value(0), "q_num_heads")
    k = _heads(call, call.value(1), "kv_num_heads")
    v = _heads(call, call.value(2), "kv_num_heads")
    if k.shape != v.shape or (causal and q.shape[2] != k.shape[2]):
        return NotImplemented
    out = call.apply(ops.Attention(causal, call.attribute("scale", None)), q, k, v)
    if call.value(0).type.ndim == 3:
        batch, heads, rows, size = out.shape
        out = call.reshape(call.transpose(out, (0, 2, 1, 3)), (batch, rows, heads * size))
    return [out]


def _rotary(call: Call) -> Value:
    """Rotate pairs of elements by angles of their positions."""
    given = call.value(0)
    x = given
    if given.type.ndim == 3:
        batch, rows, columns = given.shape
        heads = call.attribute("num_heads", 0)
        if heads < 1 or columns % heads:
            call.refuse(f"num_heads must divide {columns}, got {heads}")
        x = call.transpose(
            call.reshape(given, (batch, rows, heads, columns // heads)), (0, 2, 1, 3)
        )
    caches = (call.value(1), call.value(2))
    turned = call.attribute("rotary_embedding_dim", 0) or x.shape[3]
    positions, alike = call.optional(3), bool(call.attribute("interleaved", 0))
    out = rotated_heads(call, x, *caches, positions, alike, turned)
    if given.type.ndim == 3:
        out = call.reshape(call.transpose(out, (0, 2, 1, 3)), given.shape)
    return out


def rotated_heads(
    call: Call,
    x: Value,
    cos: Value,
    sin: Value,
    positions: Value | None,
    interleaved: bool,
    turned: int = 0,
) -> Value:
    """Rotate the first elements of each row of (batch, heads, rows, size).

    Args:
        call: the operator.
        x: what is rotated.
        cos: cosines of each row, or if there are positions of each position.
        sin: sines, likewise.
        positions: those of rows.
        interleaved: whether pairs are neighbours, not from both halves.
        turned: how many elements of a row; 0 for two for each cosine.
    """
    rows, size = x.shape[2:]
    turned = turned or 2 * cos.shape[-1]
    if turned > size:
        call.refuse(f"at most {size} elements of a row can be rotated, got {turned}")

    def angles(table: Value) -> Value:
        own = table if positions is None else taken(call, table, positions, 0)
        half = turned // 2
        return call.reshape(own, (own.type.size // (rows * half), 1, rows, half))

    first = part(call, x, 3, 0, turned)
    out = _rotated(call, first, angles(cos), angles(sin), interleaved)
    if turned == size:
        return out
    return call.apply(ops.Concatenate(3), out, part(call, x, 3, turned, size))


def _rotated(call: Call, x: Value, cos: Value, sin: Value, interleaved: bool) -> Value:
    batch, heads, rows, size = x.shape
    if interleaved:
        pairs = call.reshape(x, (batch, heads, rows, size // 2, 2))
        a, b = (
            call.reshape(each, (batch, heads, rows, size // 2))
            for each in call.several(ops.Split(2, 4), pairs)
        )
    else:
        a, b = call.several(ops.Split(2, 3), x)

    def times(first: Value, second: Value) -> Value:
        return call.apply(ops.Multiply(), first, second)

    real = call.apply(ops.Subtract(), times(a, cos), times(b, sin))
    imaginary = call.apply(ops.Add(), times(a, sin), times(b, cos))
    if not interleaved:
        return call.apply(ops.Concatenate(3), real, imaginary)
    return call.reshape(call.apply(ops.Stack(4), real, imaginary), x.shape)


CONVERTERS: dict[str, Converter] = {"Attention": _attention, "RotaryEmbedding": _rotary}
