"""Operators that read and write where indices say."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import partial

import numpy as np

from autotune.graph import Array, Value, ops
from autotune.importers.onnx.call import Call, Converter
from autotune.importers.onnx.operators.arithmetic import chosen
from autotune.importers.onnx.operators.shapes import extents_of
from autotune.importers.onnx.shape_rules import of_some_size
from autotune.importers.ranks import written_along
from autotune.importers.regions import RegionReader


def taken(call: Call, data: Value, indices: Value, axis: int) -> Value:
    """Take slices along an axis; negative indices count from the end."""
    known, extent = call.numbers(indices), data.shape[axis]
    if known is None:
        return call.apply(ops.Take(axis, wrap=True), data, indices)
    if known.min() < -extent or known.max() >= extent:
        call.refuse(
            f"indices must be within an axis of {extent}, got {known.min()} to {known.max()}"
        )
    order = np.where(known < 0, known + extent, known)
    if order.ndim == 1 and np.array_equal(order, np.arange(order[0], order[0] + order.size)):
        ends = (*data.shape[:axis], int(order[0]) + order.size)
        if order.size == extent:
            return data
        return call.apply(ops.StridedSlice((*[0] * axis, int(order[0])), ends), data)
    return call.apply(ops.Take(axis), data, call.as_value(order.astype("int32")))


def _gather(call: Call) -> Value:
    data, indices = call.value(0), call.operand(1)
    axis = call.axis(call.attribute("axis", 0), data.type.ndim)
    known = call.numbers(indices)
    if known is None or known.ndim:
        return taken(call, data, call.as_value(indices), axis)
    one = taken(call, data, call.as_value(known.reshape(1)), axis)
    return call.reshape(one, (*data.shape[:axis], *data.shape[axis + 1 :]))


def _own_places(
    call: Call, shape: Sequence[int], strides: Sequence[int], skip: Sequence[int]
) -> Value | None:
    """Return the sum over axes of index times stride, in a shape that broadcasts to it."""
    total: Array | None = None
    of_some_size(call, [n for axis, n in enumerate(shape) if axis not in skip])
    for axis, (extent, stride) in enumerate(zip(shape, strides, strict=True)):
        if axis in skip or extent == 1:
            continue
        along = [extent if i == axis else 1 for i in range(len(shape))]
        own = (np.arange(extent, dtype="int32") * stride).reshape(along)
        total = own if total is None else total + own
    return None if total is None else call.as_value(np.asarray(total, "int32"))


def _strides(shape: Sequence[int]) -> list[int]:
    return [math.prod(shape[i + 1 :]) for i in range(len(shape))]


def _counted(call: Call, indices: Value, extent: int) -> Value:
    """Return indices as int32 counted from the front."""
    known = call.numbers(indices)
    if known is not None:
        return call.as_value(np.where(known < 0, known + extent, known).astype("int32"))
    indices = call.cast(indices, "int32")
    return call.apply(ops.FloorMod(), indices, call.number(extent, indices))


def _gather_elements(call: Call) -> Value:
    """Take one element for each index, whose other coordinates are its own."""
    data, indices = call.value(0), call.value(1)
    axis = call.axis(call.attribute("axis", 0), data.type.ndim)
    strides = _strides(data.shape)
    places = _counted(call, indices, data.shape[axis])
    places = call.binary(ops.Multiply, places, strides[axis])
    own = _own_places(call, indices.shape, strides, (axis,))
    places = places if own is None else call.apply(ops.Add(), places, own)
    return call.apply(ops.Take(0), call.reshape(data, (data.type.size,)), places)


def _gather_nd(call: Call) -> Value:
    """Take slices at coordinates, which are the last axis of the indices."""
    data, indices = call.value(0), call.value(1)
    batch = call.attribute("batch_dims", 0)
    depth = indices.shape[-1]
    *outer, _ = indices.shape
    strides = _strides(data.shape[: batch + depth])
    total = (
        None
        if not batch
        else _own_places(
            call, outer, [*strides[:batch], *[0] * (len(outer) - batch)], range(batch, len(outer))
        )
    )
    for i in range(depth):
        ends = (*outer, i + 1)
        one = call.apply(ops.StridedSlice((*[0] * len(outer), i), ends), indices)
        one = _counted(call, call.reshape(one, outer), data.shape[batch + i])
        one = call.binary(ops.Multiply, one, strides[batch + i])
        total = one if total is None else call.apply(ops.Add(), one, total)
    assert total is not None
    rest = data.shape[batch + depth :]
    rows = call.reshape(data, (math.prod(data.shape[: batch + depth]), *rest))
    return call.apply(ops.Take(0), rows, total)


def _scattered(call: Call, data: Value, places: Array, updates: Value) -> Value:
    """Write updates to flat places that are known; the last of several to one place stays."""
    of_some_size(call, [data.type.size + places.size])
    order = np.arange(data.type.size, dtype="int32")
    order[places.reshape(-1)] = data.type.size + np.arange(places.size, dtype="int32")
    flat = [call.reshape(each, (each.type.size,)) for each in (data, updates)]
    joined = call.apply(ops.Concatenate(0), *flat)
    return call.apply(ops.Take(0), joined, call.as_value(order.reshape(data.shape)))


def _check_known(call: Call, index: int, name: str, end: int) -> None:
    """Refuse an input that is known and has numbers below 0, or from ``end`` on."""
    known = call.numbers(call.operand(index))
    if known is not None and known.size and (known.min() < 0 or known.max() >= end):
        call.refuse(f"{name} must be from 0 to {end - 1}, got {known.min()} to {known.max()}")


def _known_places(call: Call, extent: int) -> Array:
    known = call.known(1, "indices").astype("int64")
    if known.min() < -extent or known.max() >= extent:
        call.refuse(
            f"indices must be within an axis of {extent}, got {known.min()} to {known.max()}"
        )
    return np.where(known < 0, known + extent, known)


def _scatter_elements(call: Call) -> Value:
    data, updates = call.value(0), call.value(2)
    axis = call.axis(call.attribute("axis", 0), data.type.ndim)
    reduction = call.attribute("reduction", "none")
    if reduction != "none" or call.numbers(call.operand(1)) is None:
        own = _counted(call, call.value(1), data.shape[axis])
        return written_along(data, own, updates, axis, reduction, call.node.label)
    places = [*np.indices(updates.shape)]
    places[axis] = _known_places(call, data.shape[axis])
    return _scattered(call, data, np.ravel_multi_index(tuple(places), data.shape), updates)


def _scatter_nd(call: Call) -> Value:
    """Write slices to coordinates, which are the last axis of the indices, or combine them."""
    data, updates, indices = call.value(0), call.value(2), call.operand(1)
    reduction = call.attribute("reduction", "none")
    known = call.numbers(indices)
    depth = extents_of(indices)[-1]
    inner = math.prod(data.shape[depth:])
    if known is not None:
        rows = _known_rows(call, known.astype("int64"), data)
        if reduction == "none":
            places = rows.reshape(-1, 1) * inner + np.arange(inner)
            return _scattered(call, data, places, updates)
        at = call.as_value(rows.reshape(-1, 1).astype("int32"))
    else:
        at = call.reshape(_rows_at(call, call.value(1), data), (-1, 1))
    flat = call.reshape(data, (math.prod(data.shape[:depth]), inner))
    wide = call.reshape(updates, (at.shape[0], inner))
    made = written_along(flat, at, wide, 0, reduction, call.node.label)
    return call.reshape(made, data.shape)


def _known_rows(call: Call, known: Array, data: Value) -> Array:
    """Return which slice of data each of some coordinates that are known means."""
    extents = np.asarray(data.shape[: known.shape[-1]])
    if (known < -extents).any() or (known >= extents).any():
        call.refuse(f"indices must be within {data.type}")
    front = np.where(known < 0, known + extents, known)
    return np.asarray(np.ravel_multi_index(tuple(np.moveaxis(front, -1, 0)), tuple(extents)))


def _rows_at(call: Call, indices: Value, data: Value) -> Value:
    """Return which slice of data each of some coordinates means."""
    *outer, depth = indices.shape
    total: Value | None = None
    for i, stride in enumerate(_strides(data.shape[:depth])):
        cut = ops.StridedSlice((*[0] * len(outer), i), (*outer, i + 1))
        one = call.reshape(call.apply(cut, indices), outer)
        one = call.binary(ops.Multiply, _counted(call, one, data.shape[i]), stride)
        total = one if total is None else call.apply(ops.Add(), total, one)
    assert total is not None
    return total


def _roi_align(call: Call) -> Value:
    """Interpolate regions of images; before opset 16 pixels have no centres."""
    x, regions, images = call.value(0), call.value(1), call.value(2)
    _check_known(call, 2, "batch_indices", x.shape[0])
    old = "half_pixel" if call.opset >= 16 else "output_half_pixel"
    reader = RegionReader(
        call.attribute("output_height", 1), call.attribute("output_width", 1),
        call.attribute("sampling_ratio", 0), call.attribute("spatial_scale", 1.0),
        call.attribute("coordinate_transformation_mode", old) == "half_pixel",
        call.attribute("mode", "avg"), call.node.label,
    )  # fmt: skip
    return reader.read(x, regions, images)


def _reverse_sequence(call: Call) -> Value:
    """Turn the first elements of each sequence around, as many as its length says."""
    x, lengths = call.value(0), call.value(1)
    batch, time = call.attribute("batch_axis", 1), call.attribute("time_axis", 0)
    order = (batch, time, *[i for i in range(x.type.ndim) if i not in (batch, time)])
    rows = call.transpose(x, order)
    count, extent = rows.shape[:2]
    of_some_size(call, [count, extent])
    _check_known(call, 1, "sequence_lens", extent + 1)
    own = call.as_value(np.arange(extent, dtype="int32")[None])
    size = call.reshape(call.cast(lengths, "int32"), (count, 1))
    back = call.binary(ops.Subtract, call.apply(ops.Subtract(), size, own), 1)
    inside = call.apply(ops.Less(), own, size)
    places = chosen(call, inside, back, call.broadcast(own, (count, extent)))
    first = call.as_value((np.arange(count, dtype="int32") * extent)[:, None])
    flat = call.reshape(rows, (count * extent, *rows.shape[2:]))
    turned = call.apply(ops.Take(0), flat, call.apply(ops.Add(), places, first))
    return call.transpose(turned, tuple(order.index(i) for i in range(len(order))))


def _one_hot(call: Call) -> Value:
    """Compare indices with those of a new axis."""
    indices, depth = call.value(0), int(call.known(1, "depth").reshape(-1)[0])
    off, on = call.known(2, "values").reshape(-1)
    axis = call.axis(call.attribute("axis", -1), indices.type.ndim + 1)
    shape = (*indices.shape[:axis], 1, *indices.shape[axis:])
    places = indices
    if "float" in indices.dtype:
        places = call.cast(indices, "int64")
    # Indices from -depth on count from the end, others hit nothing.
    negative = call.binary(ops.Less, places, 0)
    shifted = call.binary(ops.Add, places, depth)
    places = call.reshape(chosen(call, negative, shifted, places), shape)
    of_some_size(call, [depth])
    own = np.arange(depth).reshape([depth if i == axis else 1 for i in range(len(shape))])
    hit = call.apply(ops.Equal(), places, call.as_value(own.astype(places.dtype)))
    wide = [call.broadcast(call.as_value(np.asarray(each)), hit.shape) for each in (on, off)]
    return call.apply(ops.Where(), hit, *wide)


def _compress(call: Call) -> Value:
    """Take the slices whose condition is met; it must be known."""
    data = call.value(0)
    kept = np.flatnonzero(call.known(1, "condition")).astype("int32")
    axis = call.attribute("axis", None)
    if axis is None:
        data, axis = call.reshape(data, (data.type.size,)), 0
    if not kept.size:
        call.refuse("its condition leaves nothing")
    return taken(call, data, call.as_value(kept), call.axis(axis, data.type.ndim))


def _scatter_rows(call: Call) -> Value:
    """Write rows into a cache, from an index on that each batch has; a ring begins again."""
    cache, rows = call.value(0), call.value(1)
    axis = call.axis(call.attribute("axis", -2), cache.type.ndim)
    extent, count = cache.shape[axis], rows.shape[axis]
    of_some_size(call, [extent])
    ndim = cache.type.ndim
    own = np.arange(extent, dtype="int32").reshape([-1 if i == axis else 1 for i in range(ndim)])
    number = call.as_value(own)
    if call.has(2):
        begin = call.cast(call.value(2), "int32")
        begin = call.reshape(begin, (cache.shape[0], *[1] * (ndim - 1)))
        number = call.apply(ops.Subtract(), number, begin)
    if call.attribute("mode", "linear") == "circular":
        number = call.binary(ops.FloorMod, number, extent)
    inside = call.apply(
        ops.LogicalAnd(),
        call.binary(ops.GreaterEqual, number, 0),
        call.binary(ops.Less, number, count),
    )
    place = call.apply(ops.Clip(0, count - 1), number)
    strides = _strides(rows.shape)
    place = call.binary(ops.Multiply, place, strides[axis])
    others = _own_places(call, rows.shape, strides, (axis,))
    place = place if others is None else call.apply(ops.Add(), place, others)
    flat = call.reshape(rows, (rows.type.size,))
    written = call.apply(ops.Take(0), flat, call.broadcast(place, cache.shape))
    return chosen(call, inside, written, cache)


def _cumulative(call: Call, of: type[ops.Cumsum] | type[ops.Cumprod] = ops.Cumsum) -> Value:
    """Add up, or multiply, along an axis.

    With ``reverse`` it begins at the end of the axis, with ``exclusive`` the own element is not
    counted.
    """
    x = call.value(0)
    axis = call.axis(call.whole(1, "axis")[0], x.type.ndim)
    extent = x.shape[axis]
    reverse = call.attribute("reverse", 0)
    if reverse:
        of_some_size(call, [extent])
    back = call.as_value(np.arange((extent if reverse else 1) - 1, -1, -1, dtype="int32"))
    x = call.apply(ops.Take(axis), x, back) if reverse else x
    if call.attribute("exclusive", 0):
        pairs = [(0, 0)] * x.type.ndim
        pairs[axis] = (1, 0)
        wide = call.apply(ops.Pad(tuple(pairs), float(of.neutral)), x)
        x = call.apply(ops.StridedSlice((0,) * (axis + 1), (*x.shape[:axis], extent)), wide)
    total = call.apply(of(axis), x)
    return call.apply(ops.Take(axis), total, back) if reverse else total


CONVERTERS: dict[str, Converter] = {
    "Gather": _gather,
    "GatherElements": _gather_elements,
    "GatherND": _gather_nd,
    "Scatter": _scatter_elements,
    "ScatterElements": _scatter_elements,
    "ScatterND": _scatter_nd,
    "OneHot": _one_hot,
    "Compress": _compress,
    "CumSum": _cumulative,
    "TensorScatter": _scatter_rows,
    "CumProd": partial(_cumulative, of=ops.Cumprod),
    "RoiAlign": _roi_align,
    "ReverseSequence": _reverse_sequence,
}
