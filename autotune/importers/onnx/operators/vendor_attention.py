"""Attention of ONNX Runtime (domain ``com.microsoft``): what its tools for transformers write."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from autotune.graph import Value, ops
from autotune.importers.onnx.call import Call, Converter, Operand
from autotune.importers.onnx.operators.arithmetic import combined
from autotune.importers.onnx.operators.attention import rotated_heads
from autotune.importers.onnx.operators.products import matmul
from autotune.importers.onnx.operators.quantised import dequantised
from autotune.importers.onnx.operators.shapes import extents_of, part


@dataclass(frozen=True)
class _Heads:
    """Queries, keys and values as (batch, heads, rows, size)."""

    q: Value
    k: Value
    v: Value


def _apart(call: Call, x: Value, heads: int) -> Value:
    """Return heads that are side by side in the last of three axes as an axis of their own."""
    if x.type.ndim != 3 or heads < 1 or x.shape[2] % heads:
        call.refuse(f"expected (batch, rows, columns) whose columns {heads} divides, got {x.type}")
    batch, rows, columns = x.shape
    return call.transpose(call.reshape(x, (batch, rows, heads, columns // heads)), (0, 2, 1, 3))


def _side_by_side(call: Call, x: Value) -> Value:
    batch, heads, rows, size = x.shape
    return call.reshape(call.transpose(x, (0, 2, 1, 3)), (batch, rows, heads * size))


def _attended(
    call: Call, heads: _Heads, biases: list[Value], causal: bool, window: int = 0
) -> Value:
    """Return the result of attention, heads side by side.

    Args:
        call: the operator, whose scale is used.
        heads: what attends, and to what.
        biases: are added to scores; they broadcast to (batch, heads, queries, keys).
        causal: whether a query sees no later keys, the last one all.
        window: how many keys a query sees; 0 for all.
    """
    if heads.k.shape != heads.v.shape:
        call.refuse(f"values must be of the type of keys, {heads.k.type}, got {heads.v.type}")
    queries, keys = heads.q.shape[2], heads.k.shape[2]
    if window:
        behind = np.arange(queries)[:, None] + (keys - queries) - np.arange(keys)
        far = np.where(behind < window, 0, -np.inf).astype("float32")
        biases = [*biases, call.as_value(far.reshape(1, 1, queries, keys))]
    given = [call.cast(each, "float32") for each in biases] if len(biases) > 1 else biases
    total = given[0] if given else None
    for each in given[1:]:
        assert total is not None
        total = combined(call, ops.Add(), total, each)
    if total is not None:
        batch, many, *rest = (1,) * (4 - total.type.ndim) + total.shape
        total = call.broadcast(
            call.reshape(total, (batch, many, *rest)), (batch, many, *rest[:-1], keys)
        )
    op = ops.Attention(causal, call.attribute("scale", 0.0) or None)
    inputs = (heads.q, heads.k, heads.v)
    return _side_by_side(call, call.apply(op, *inputs, *([] if total is None else [total])))


def _hidden(call: Call, index: int, batch: int, keys: int) -> list[Value]:
    """Return a mask as what is added to scores, (batch, 1, queries, keys); none is no list.

    It is 1 or 0 for each key, or each query and key, or the number of keys of each batch, behind
    which there may be those where they begin.
    """
    if not call.has(index):
        return []
    mask, steps = call.value(index), call.as_value(np.arange(keys, dtype="int32"))
    mask = call.cast(mask, "int32")
    if mask.type.ndim == 1 and mask.type.size in (batch, 2 * batch):
        ends = call.reshape(part(call, mask, 0, 0, batch), (batch, 1))
        seen = call.apply(ops.Less(), steps, ends)
        if mask.type.size == 2 * batch:
            starts = call.reshape(part(call, mask, 0, batch, 2 * batch), (batch, 1))
            seen = call.apply(
                ops.LogicalAnd(), seen, call.apply(ops.GreaterEqual(), steps, starts)
            )
        mask = call.cast(seen, "int32")
    if mask.type.ndim not in (2, 3) or mask.shape[-1] != keys or mask.shape[0] not in (1, batch):
        call.refuse(
            f"a mask must be for batches of {batch}, and {keys} keys, got {call.value(index).type}"
        )
    shape = (mask.shape[0], 1, mask.shape[1] if mask.type.ndim == 3 else 1, keys)
    hidden = call.binary(ops.Multiply, call.cast(mask, "float32"), -1)
    hidden = call.binary(ops.Add, hidden, 1)
    least = call.attribute("mask_filter_value", -10000.0)
    return [call.reshape(call.binary(ops.Multiply, hidden, least), shape)]


def _joined(call: Call, past: Operand, now: Value) -> Value:
    """Return the rows of a cache, which may have none, before those of now."""
    if past is None or 0 in extents_of(past):
        return now
    return call.apply(ops.Concatenate(2), call.as_value(past), now)


def _input(call: Call, index: int) -> Operand:
    return call.inputs[index] if call.has(index) else None


def _self_attention(call: Call) -> list[Operand | None]:
    """Attention with the product that makes queries, keys and values; a cache is one array."""
    made = matmul(call, call.value(0), call.value(1))
    made = combined(call, ops.Add(), made, call.value(2)) if call.has(2) else made
    return _of_product(call, made)


def _of_product(call: Call, made: Value) -> list[Operand | None]:
    """Return attention of queries, keys and values that are side by side."""
    call.refuse_given({6: "past_sequence_length"}, ("do_rotary", "past_present_share_buffer"))
    heads, columns = call.attribute("num_heads", 0), made.shape[-1]
    sizes = call.ints("qkv_hidden_sizes") or (columns // 3,) * 3
    if len(sizes) != 3 or sum(sizes) != columns:
        call.refuse(f"qkv_hidden_sizes must be three numbers that make {columns}, got {sizes}")
    ends = np.cumsum(sizes).tolist()
    parts = [part(call, made, 2, end - n, end) for n, end in zip(sizes, ends, strict=True)]
    q, k, v = (_apart(call, each, heads) for each in parts)
    past = _input(call, 4)
    if past is not None and 0 not in extents_of(past):
        old = call.as_value(past)
        rows = [call.reshape(each, old.shape[1:]) for each in call.several(ops.Split(2, 0), old)]
        k, v = (_joined(call, row, each) for row, each in zip(rows, (k, v), strict=True))
    found = _Heads(q, k, v)
    biases = _hidden(call, 3, q.shape[0], k.shape[2])
    biases += [call.value(5)] if call.has(5) else []
    out = _attended(call, found, biases, bool(call.attribute("unidirectional", 0)))
    return [out, call.apply(ops.Stack(0), k, v) if len(call.node.outputs) > 1 else None]


def _quantised_attention(call: Call) -> list[Operand | None]:
    """The same of bytes; their scales come behind the bias, their zero points behind the mask."""
    x = dequantised(call, _input(call, 0), _input(call, 3), _input(call, 6), 0)
    weight = dequantised(call, _input(call, 1), _input(call, 4), _input(call, 7), 1)
    made = combined(call, ops.Add(), matmul(call, x, weight), call.value(2))
    inputs = (*call.inputs[:3], _input(call, 5), _input(call, 8))
    return _of_product(replace(call, inputs=inputs), made)


def _multi_head(call: Call) -> list[Operand | None]:
    """Attention of queries to keys and values, each with its bias; caches are two arrays."""
    call.refuse_given({8: "past_sequence_length", 9: "cache_indirection"}, ())
    heads, query = call.attribute("num_heads", 0), call.value(0)
    rest = [call.optional(1), call.optional(2)]
    if query.type.ndim == 5:  # (batch, rows, heads, 3, size)
        values = _unpacked(call, query, 3)
    elif rest[0] is not None and rest[0].type.ndim == 5:
        values = [query, *_unpacked(call, rest[0], 2)]
    else:
        values = [query, *[each for each in rest if each is not None]]
    if len(values) != 3:
        call.refuse("expected keys and values, or both in one array of 5 dimensions")
    if call.has(3):
        ends = np.cumsum([each.shape[2] if each.type.ndim == 3 else 0 for each in values]).tolist()
        values = [
            each if each.type.ndim == 4 else
            combined(call, ops.Add(), each, part(call, call.value(3), 0, end - each.shape[2], end))
            for each, end in zip(values, ends, strict=True)
        ]  # fmt: skip
    q, k, v = (each if each.type.ndim == 4 else _apart(call, each, heads) for each in values)
    causal = bool(call.attribute("unidirectional", 0))
    if causal and k.shape[2] != q.shape[2]:
        call.refuse(f"unidirectional is for one key of each query, got {q.type} and {k.type}")
    k, v = _joined(call, _input(call, 6), k), _joined(call, _input(call, 7), v)
    biases = _hidden(call, 4, q.shape[0], k.shape[2])
    biases += [call.value(5)] if call.has(5) else []
    out = _attended(call, _Heads(q, k, v), biases, causal)
    return [out, k, v]


def _unpacked(call: Call, x: Value, count: int) -> list[Value]:
    """Return what is side by side in the fourth axis, as (batch, rows, columns)."""
    batch, rows, heads, many, size = x.shape
    if many != count:
        call.refuse(f"expected {count} in the fourth axis, got {x.type}")
    parts = call.several(ops.Split(count, 3), x)
    return [call.reshape(each, (batch, rows, heads * size)) for each in parts]


def _grouped_query(call: Call) -> list[Operand | None]:
    """Attention of several queries to each key, with a cache and positions by rotation.

    Rows of a cache end where the new ones begin: that is known of one batch from shapes alone, and
    of several if they begin at 0, or have one length.
    """
    call.refuse_given(_INPUTS, _ATTRIBUTES)
    for name in ("k_quant_type", "v_quant_type"):
        if (kind := call.attribute(name, "NONE")) != "NONE":
            call.refuse(f"{name} must be NONE, got {kind!r}")
    heads, few = call.attribute("num_heads", 0), call.attribute("kv_num_heads", 0)
    x = call.value(0)
    if call.has(1):
        values = [x, call.value(1), call.value(2)]
    else:
        size = x.shape[2] // max(heads + 2 * few, 1)
        if size * (heads + 2 * few) != x.shape[2]:
            call.refuse(f"expected columns for {heads} and twice {few} heads, got {x.type}")
        ends = np.cumsum([heads * size, few * size, few * size]).tolist()
        values = [part(call, x, 2, a, b) for a, b in zip([0, *ends], ends, strict=False)]
    q, k, v = (_apart(call, each, n) for each, n in zip(values, (heads, few, few), strict=True))
    begin = _begin(call, q.shape[0], q.shape[2])
    if call.attribute("do_rotary", 0):
        if call.has(9):
            positions = call.value(9)
        else:
            own = begin + np.arange(q.shape[2], dtype="int64")
            positions = call.as_value(np.tile(own, (q.shape[0], 1)))
        alike = bool(call.attribute("rotary_interleaved", 0))
        tables = (call.value(7), call.value(8), positions)
        q, k = (rotated_heads(call, each, *tables, alike) for each in (q, k))
    caches = [_cached(call, i, each, begin) for i, each in ((3, k), (4, v))]
    (k, new_k), (v, new_v) = caches
    biases = [part(call, call.value(10), 3, 0, k.shape[2])] if call.has(10) else []
    window = max(call.attribute("local_window_size", -1), 0)
    causal = bool(call.attribute("causal", 1))
    return [_attended(call, _Heads(q, k, v), biases, causal, window), new_k, new_v]


# Inputs and attributes of grouped attention that are not supported.
_INPUTS = {
    11: "head_sink", 12: "k_scale", 13: "v_scale", 14: "q_norm_weight", 15: "k_norm_weight",
    16: "query_seqlens",
}  # fmt: skip
_ATTRIBUTES = (
    "softcap", "smooth_softmax", "kv_cache_bit_width", "qk_output", "sliding_window_cache",
)  # fmt: skip


def _begin(call: Call, batch: int, rows: int) -> int:
    """Return the position of the first new row."""
    total = int(call.known(6, "total_sequence_length").reshape(-1)[0])
    if total < rows:
        call.refuse(f"total_sequence_length must be at least {rows} rows, got {total}")
    lengths = call.numbers(call.operand(5))
    alike = lengths is not None and set(lengths.reshape(-1).tolist()) == {total - 1}
    if total > rows and not alike and (batch > 1 or lengths is not None):
        call.refuse(
            "batches of several lengths with a cache are not supported, nor other lengths "
            f"than {total - 1}, one less than total_sequence_length"
        )
    return total - rows


def _cached(call: Call, index: int, now: Value, begin: int) -> tuple[Value, Value]:
    """Return the rows that are seen, and the cache with the new ones."""
    past = _input(call, index)
    extent = 0 if past is None else extents_of(past)[2]
    if extent < begin:
        call.refuse(f"a cache must have the {begin} rows before the new ones, got {extent}")
    if not extent:
        return now, now
    old = call.as_value(past)
    seen = _joined(call, part(call, old, 2, 0, begin) if begin else None, now)
    end = begin + now.shape[2]
    if end >= extent:
        return seen, seen
    return seen, call.apply(ops.Concatenate(2), seen, part(call, old, 2, end, extent))


def _rotary(call: Call) -> Value:
    """Rotate pairs of elements; positions are one for each row, or that of the first one."""
    call.refuse_given({}, ("is_packed_batching",))
    if (scale := call.attribute("scale", 1.0)) != 1:
        call.refuse(f"scale must be 1, got {scale}")
    x, positions, tables = call.value(0), call.value(1), (call.value(2), call.value(3))
    if x.type.ndim == 3:
        turned = call.attribute("rotary_embedding_dim", 0)
        count = call.attribute("num_heads", 0)
        size = 2 * tables[0].shape[1]
        if turned and not count:
            call.refuse("num_heads must be there if rotary_embedding_dim is")
        apart = _apart(call, x, count or x.shape[2] // size)
    else:
        apart = x
    if positions.type.size == 1:
        own = call.as_value(np.arange(apart.shape[2], dtype="int64"))
        first = call.cast(call.reshape(positions, ()), "int64")
        rows = call.reshape(combined(call, ops.Add(), own, first), (1, apart.shape[2]))
        positions = call.broadcast(rows, (apart.shape[0], apart.shape[2]))
    alike = bool(call.attribute("interleaved", 0))
    out = rotated_heads(call, apart, *tables, positions, alike)
    return _side_by_side(call, out) if x.type.ndim == 3 else out


CONVERTERS: dict[str, Converter] = {
    "Attention": _self_attention,
    "QAttention": _quantised_attention,
    "MultiHeadAttention": _multi_head,
    "GroupQueryAttention": _grouped_query,
    "RotaryEmbedding": _rotary,
}
