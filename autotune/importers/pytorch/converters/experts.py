"""Mixtures of experts: rows sorted by expert, how many each has, and products with its weight."""

from __future__ import annotations

import numpy as np

from autotune.graph import Value, ops
from autotune.importers.pytorch.call import Call, converts
from autotune.importers.pytorch.converters.matrix import as_it_was

# Rows up to which all are multiplied by the weights of all experts: a GPU reads these in the time
# of as many products.
_MOST_ROWS = 512
# Where rows are so many times fewer than experts, each row's weight is copied instead: it is read,
# written and read.
_FEW = 3


@converts("histc")
def histogram(call: Call, x: Value, bins: int = 100, low: float = 0, high: float = 0) -> Value:
    """Count elements in equal ranges, of which the last one has its upper end too."""
    if not low < high:
        call.refuse("min and max", "numbers, the first less than the second", (low, high))
    count = x.type.size
    dtype = x.dtype if x.dtype in ("float32", "float64") else "float32"
    wide = call.cast(call.reshape(x, (count, 1)), dtype)
    # In torch's order: numbers at an edge are rounded as there.
    apart = call.apply(ops.Subtract(), wide, call.constant(low, dtype))
    scaled = call.apply(ops.Multiply(), apart, call.constant(bins, dtype))
    place = call.apply(ops.Divide(), scaled, call.constant(high - low, dtype))
    place = call.apply(ops.Floor(), place)
    place = call.apply(ops.Minimum(), place, call.constant(bins - 1, dtype))
    beyond = call.apply(ops.Greater(), wide, call.constant(high, dtype))
    none = call.constant(np.full((count, 1), -1), dtype)
    place = call.apply(ops.Where(), beyond, none, place)
    known = call.constant(np.arange(bins)[None], dtype)
    hit = call.cast(call.apply(ops.Equal(), place, known), "int32")
    return call.cast(call.apply(ops.Sum((0,)), hit), call.type.dtype)


@converts("transformers.grouped_mm_fallback", "_grouped_mm")
def grouped(
    call: Call, x: Value, weights: Value, ends: Value | None = None, bias: Value | None = None,
    dtype: object = None,
) -> Value:  # fmt: skip
    """Multiply each row by the weight of its group; ``ends`` says where groups of rows end.

    Rows behind the last group, of which torch's operator says nothing, belong to it.
    """
    if ends is None or x.type.ndim != 2 or weights.type.ndim != 3 or bias is not None:
        call.refuse("operands", "rows, weights of groups, and ends", (x.type, weights.type, ends))
    count, depth = x.shape
    groups, _, columns = weights.shape
    rows = np.arange(count, dtype="int32")
    before = call.apply(
        ops.LessEqual(), call.reshape(ends, (1, groups)), call.constant(rows[:, None], ends.dtype)
    )
    group = call.apply(ops.Sum((1,)), call.cast(before, "int32"))
    group = call.apply(ops.Minimum(), group, call.constant(groups - 1, "int32"))
    kept = as_it_was(weights)
    weight = weights if kept is None else kept
    if _FEW * count < groups:
        own = call.apply(ops.Take(0), weight, group)
        each = call.reshape(x, (count, 1, depth))
        product = call.apply(ops.BatchMatmul(transpose_b=kept is not None), each, own)
        return call.reshape(product, (count, columns))
    if count > _MOST_ROWS:
        call.refuse(
            "input", f"of at most {_MOST_ROWS} rows, as all are multiplied by all weights", count
        )
    every = call.reshape(x, (1, count, depth))
    product = call.apply(ops.BatchMatmul(transpose_b=kept is not None), every, weight)
    far = call.apply(ops.Multiply(), group, call.constant(count, "int32"))
    places = call.apply(ops.Add(), far, call.constant(rows, "int32"))
    return call.apply(ops.Take(0), call.reshape(product, (groups * count, columns)), places)
