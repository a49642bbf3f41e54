"""Attention, and positions by rotation."""

from __future__ import annotations

import numpy as np

from autotune.graph import Value, ops
from autotune.importers.onnx.call import Call, Converter
from autotune.importers.onnx.operators.arithmetic import chosen, combined
from autotune.importers.onnx.operators.products import matmul
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


def _attention(call: Call) -> list[Value]:
    """Return attention; keys and values before the given ones are put in front of them."""
    q = _heads(call, call.value(0), "q_num_heads")
    k = _heads(call, call.value(1), "kv_num_heads")
    v = _heads(call, call.value(2), "kv_num_heads")
    if len([n for n in call.node.outputs if n]) > (3 if len(call.node.outputs) < 4 else 2):
        call.refuse("its output of scores, qk_matmul_output, is not supported")
    if call.has(4):
        k = call.apply(ops.Concatenate(2), call.value(4), k)
        v = call.apply(ops.Concatenate(2), call.value(5), v)
    causal, cap = bool(call.attribute("is_causal", 0)), call.attribute("softcap", 0.0)
    scale = call.attribute("scale", None)
    plain = not call.has(3) and not call.has(6) and not cap and k.shape == v.shape
    if plain and (not causal or q.shape[2] == k.shape[2]):
        out = call.apply(ops.Attention(causal, scale), q, k, v)
    else:
        out = _written_out(call, q, k, v, causal)
    if call.value(0).type.ndim == 3:
        batch, heads, rows, size = out.shape
        out = call.reshape(call.transpose(out, (0, 2, 1, 3)), (batch, rows, heads * size))
    return [out, k, v]


def _written_out(call: Call, q: Value, k: Value, v: Value, causal: bool) -> Value:
    """Return attention as products and a softmax, with its mask and cap."""
    group = q.shape[1] // k.shape[1]
    k, v = (_repeated(call, each, group) for each in (k, v))
    scale = call.attribute("scale", None)
    factor = float(q.shape[3] ** -0.5 if scale is None else scale)
    scores = matmul(call, q, call.transpose(k, (0, 1, 3, 2)))
    scores = call.binary(ops.Multiply, scores, factor)
    if cap := call.attribute("softcap", 0.0):
        inner = call.apply(ops.Tanh(), call.binary(ops.Divide, scores, cap))
        scores = call.binary(ops.Multiply, inner, cap)
    if causal:
        rows, columns = np.indices(scores.shape[2:])
        past = call.value(4).shape[2] if call.has(4) else 0
        scores = _hidden(call, scores, call.as_value(columns <= rows + past))
    if call.has(3):
        scores = _masked(call, scores, call.value(3))
    if call.has(6):
        lengths = call.reshape(call.value(6), (scores.shape[0], 1, 1, 1))
        own = call.as_value(np.arange(scores.shape[3], dtype="int64").reshape(1, 1, 1, -1))
        scores = _hidden(call, scores, combined(call, ops.Less(), own, lengths))
    return matmul(call, call.apply(ops.Softmax(-1), scores), v)


def _masked(call: Call, scores: Value, mask: Value) -> Value:
    """Apply a mask, which may have fewer keys: the others are not seen."""
    keys = scores.shape[3]
    if mask.shape[-1] < keys:
        pairs = (*[(0, 0)] * (mask.type.ndim - 1), (0, keys - mask.shape[-1]))
        outside = 0.0 if mask.dtype == "bool" else -np.inf
        mask = call.apply(ops.Pad(pairs, outside), mask)
    if mask.dtype == "bool":
        return _hidden(call, scores, mask)
    return combined(call, ops.Add(), scores, call.cast(mask, scores.dtype))


def _hidden(call: Call, scores: Value, seen: Value) -> Value:
    return chosen(call, seen, scores, call.number(-np.inf, scores))


def _repeated(call: Call, x: Value, times: int) -> Value:
    """Repeat each head."""
    if times == 1:
        return x
    batch, heads, rows, size = x.shape
    apart = call.reshape(x, (batch, heads, 1, rows, size))
    wide = call.broadcast(apart, (batch, heads, times, rows, size))
    return call.reshape(wide, (batch, heads * times, rows, size))


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
    batch, heads, rows, size = x.shape
    turned = call.attribute("rotary_embedding_dim", 0) or size
    half = turned // 2
    angles = [_angles(call, i, (batch, rows), half) for i in (1, 2)]
    first, rest = (
        part(call, x, 3, 0, turned),
        part(call, x, 3, turned, size) if turned < size else None,
    )
    out = _rotated(call, first, angles[0], angles[1], bool(call.attribute("interleaved", 0)))
    out = out if rest is None else call.apply(ops.Concatenate(3), out, rest)
    if given.type.ndim == 3:
        out = call.reshape(call.transpose(out, (0, 2, 1, 3)), given.shape)
    return out


def _angles(call: Call, index: int, outer: tuple[int, int], half: int) -> Value:
    """Return cosines or sines for each position, to be broadcast over heads."""
    cache = call.value(index)
    if call.has(3):
        cache = call.apply(ops.Take(0), cache, call.value(3))
    return call.reshape(cache, (cache.type.size // (outer[1] * half), 1, outer[1], half))


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
