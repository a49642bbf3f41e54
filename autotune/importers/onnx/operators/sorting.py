"""The greatest elements in order, by counting how many are before each."""

from __future__ import annotations

import numpy as np

from autotune.graph import Value, ops
from autotune.importers.onnx.call import Call, Converter
from autotune.importers.onnx.operators.arithmetic import combined

# Every element is compared with all others of its axis.
_MOST = 4096


def _top(call: Call) -> list[Value]:
    """Return the k greatest or least elements along an axis, and their indices.

    The rank of an element is how many come before it; the first of equals is before the others.
    """
    x = call.value(0)
    count = call.whole(1, "k")[0] if call.opset >= 10 else call.attribute("k", 1)
    axis = call.axis(call.attribute("axis", -1), x.type.ndim)
    extent = x.shape[axis]
    if not 1 <= count <= extent:
        call.refuse(f"k must be 1 to {extent}, got {count}")
    if extent > _MOST:
        call.refuse(f"axes of more than {_MOST} elements are not sorted, got {extent}")
    last = x.type.ndim - 1
    order = [*[i for i in range(last + 1) if i != axis], axis]
    rows = call.transpose(x, order)
    greatest = bool(call.attribute("largest", 1))
    places = _places(call, rows, count, greatest)
    values = _at(call, rows, places)
    back = [order.index(i) for i in range(last + 1)]
    return [call.transpose(values, back), call.cast(call.transpose(places, back), "int64")]


def _places(call: Call, rows: Value, count: int, greatest: bool) -> Value:
    """Return the indices of the first ``count`` elements of the last axis, in order."""
    *outer, extent = rows.shape
    mine = call.reshape(rows, (*outer, extent, 1))
    other = call.reshape(rows, (*outer, 1, extent))
    own = np.arange(extent, dtype="int32")
    ones = (1,) * len(outer)
    earlier = call.as_value((own[None, :] < own[:, None]).reshape(*ones, extent, extent))
    before = call.apply(ops.Greater() if greatest else ops.Less(), other, mine)
    equal = call.apply(ops.Equal(), other, mine)
    first = combined(
        call, ops.LogicalOr(), before, combined(call, ops.LogicalAnd(), equal, earlier)
    )
    rank = call.apply(ops.Sum((-1,)), call.cast(first, "int32"))
    wanted = call.as_value(np.arange(count, dtype="int32").reshape(*ones, count, 1))
    hit = call.apply(ops.Equal(), call.reshape(rank, (*outer, 1, extent)), wanted)
    index = call.as_value(own.reshape(*ones, 1, extent))
    return call.apply(ops.Sum((-1,)), call.apply(ops.Multiply(), call.cast(hit, "int32"), index))


def _at(call: Call, rows: Value, places: Value) -> Value:
    """Return the elements of the last axis at places."""
    *outer, extent = rows.shape
    flat = places
    number = int(np.prod(outer, dtype="int64"))
    if number > 1:
        begin = (np.arange(number, dtype="int32") * extent).reshape(*outer, 1)
        flat = call.apply(ops.Add(), places, call.as_value(begin))
    return call.apply(ops.Take(0), call.reshape(rows, (number * extent,)), flat)


CONVERTERS: dict[str, Converter] = {"TopK": _top}
