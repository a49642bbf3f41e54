"""Operators that move elements, and that say or make shapes."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from autotune.graph import Array, Value, ops
from autotune.importers.onnx.call import Call, Converter, Operand
from autotune.importers.onnx.shape_rules import (
    concrete_slices,
    new_shape,
    of_some_size,
    split_sizes,
)
from autotune.importers.onnx.tensors import dtype_of, numpy_type


def extents_of(operand: Operand) -> tuple[int, ...]:
    """Return the shape of an operand."""
    return operand.shape if isinstance(operand, Value) else np.asarray(operand).shape


def _shape(call: Call) -> Array:
    shape = extents_of(call.operand(0))
    start, end = call.attribute("start", 0), call.attribute("end", None)
    return np.asarray(shape[slice(start, end)], "int64")


def _size(call: Call) -> Array:
    return np.asarray(math.prod(extents_of(call.operand(0))), "int64")


def _constant(call: Call) -> Operand:
    """Return the numbers of the attribute that is there."""
    for name, dtype in (
        ("value_float", "float32"), ("value_floats", "float32"),
        ("value_int", "int64"), ("value_ints", "int64"),
    ):  # fmt: skip
        if name in call.node.attributes:
            return np.asarray(call.node.attributes[name], dtype)
    value: object = call.attribute("value", None)
    if not isinstance(value, np.ndarray):
        call.refuse("its value must be numbers; text and sparse tensors are not supported")
    return value


def _constant_of_shape(call: Call) -> Array:
    value = call.attribute("value", np.zeros(1, "float32"))
    return np.full(of_some_size(call, call.whole(0, "shape")), value.reshape(-1)[0], value.dtype)


def _eye(call: Call) -> Array:
    like = call.value(0)
    rows, columns = of_some_size(call, like.shape)
    number = call.attribute("dtype", 0)
    kind = dtype_of(number, call.node.label) if number else like.dtype
    return np.eye(rows, columns, call.attribute("k", 0)).astype(numpy_type(kind))


def _reshape(call: Call) -> Value:
    x = call.value(0)
    return call.reshape(x, new_shape(call, x.shape))


def _flatten(call: Call) -> Value:
    x = call.value(0)
    axis = call.attribute("axis", 1)
    axis = axis + x.type.ndim if axis < 0 else axis
    return call.reshape(x, (math.prod(x.shape[:axis]), math.prod(x.shape[axis:])))


def _squeeze(call: Call) -> Value:
    x = call.value(0)
    axes = call.ints_of("axes", 13)
    if axes is None:
        return call.reshape(x, [n for n in x.shape if n != 1])
    gone = {call.axis(axis, x.type.ndim) for axis in axes}
    if any(x.shape[axis] != 1 for axis in gone):
        call.refuse(f"axes must be of extent 1, got {list(axes)} of {x.type}")
    return call.reshape(x, [n for i, n in enumerate(x.shape) if i not in gone])


def _unsqueeze(call: Call) -> Value:
    x = call.value(0)
    axes = call.ints_of("axes", 13) or ()
    ndim = x.type.ndim + len(axes)
    new = {call.axis(axis, ndim) for axis in axes}
    extents = iter(x.shape)
    return call.reshape(x, [1 if i in new else next(extents) for i in range(ndim)])


def _transpose(call: Call) -> Value:
    x = call.value(0)
    return call.transpose(x, call.ints("perm") or tuple(reversed(range(x.type.ndim))))


def _concat(call: Call) -> Value:
    parts = [each for each in call.inputs if 0 not in extents_of(each)]
    values = [call.as_value(each) for each in parts]
    axis = call.attribute("axis", 1 if call.opset < 4 else 0)
    return values[0] if len(values) == 1 else call.apply(ops.Concatenate(axis), *values)


def empty(x: Value, shape: Sequence[int]) -> Array:
    """Return no elements, of the dtype of a value: they may be joined with others."""
    return np.zeros(tuple(shape), numpy_type(x.dtype))


def part(call: Call, x: Value, axis: int, begin: int, end: int) -> Value:
    """Return the elements from ``begin`` to ``end`` of an axis."""
    if (begin, end) == (0, x.shape[axis]):
        return x
    ends = (*x.shape[:axis], end)
    return call.apply(ops.StridedSlice((*[0] * axis, begin), ends), x)


def _split(call: Call) -> list[Operand]:
    x = call.value(0)
    axis = call.axis(call.attribute("axis", 0), x.type.ndim)
    sizes = split_sizes(call, x.shape[axis])
    if len(set(sizes)) == 1 and len(sizes) > 1:
        return list(call.several(ops.Split(len(sizes), axis), x))
    ends = np.cumsum(sizes).tolist()
    outer, inner = x.shape[:axis], x.shape[axis + 1 :]
    return [
        part(call, x, axis, end - size, end) if size else empty(x, (*outer, 0, *inner))
        for end, size in zip(ends, sizes, strict=True)
    ]


def _split_to_sequence(call: Call) -> tuple[Value, ...]:
    x = call.value(0)
    axis = call.axis(call.attribute("axis", 0), x.type.ndim)
    extent = x.shape[axis]
    given = call.known(1, "split") if call.has(1) else np.asarray(1)
    if given.ndim:
        sizes = [int(n) for n in given]
    else:
        step = int(given)
        sizes = [min(step, extent - at) for at in range(0, extent, step)]
    ends = np.cumsum(sizes).tolist()
    parts = [part(call, x, axis, end - size, end) for end, size in zip(ends, sizes, strict=True)]
    if call.has(1) or call.attribute("keepdims", 1):
        return tuple(parts)
    kept = [n for i, n in enumerate(x.shape) if i != axis]
    return tuple([call.reshape(each, kept) for each in parts])


def _slice(call: Call) -> Operand:
    x = call.value(0)
    slices = concrete_slices(call, x.shape)
    counts = [len(range(*each.indices(n))) for each, n in zip(slices, x.shape, strict=True)]
    if 0 in counts:
        return empty(x, counts)
    for axis, (each, extent) in enumerate(zip(slices, x.shape, strict=True)):
        if each.step < 0:
            order = np.arange(extent, dtype="int32")[each]
            x = call.apply(ops.Take(axis), x, call.as_value(order))
    forward = [
        slice(0, n, 1) if each.step < 0 else each for each, n in zip(slices, x.shape, strict=True)
    ]
    if all(
        (each.start, each.stop, each.step) == (0, n, 1)
        for each, n in zip(forward, x.shape, strict=True)
    ):
        return x
    begin, end, step = zip(*[(e.start, e.stop, e.step) for e in forward], strict=True)
    return call.apply(ops.StridedSlice(begin, end, step), x)


def _expand(call: Call) -> Operand:
    x = call.value(0)
    shape = np.broadcast_shapes(x.shape, call.whole(1, "shape"))
    return empty(x, shape) if 0 in shape else call.broadcast(x, shape)


def _tile(call: Call) -> Operand:
    x, repeats = call.value(0), call.whole(1, "repeats")
    if 0 in repeats:
        return empty(x, [n * r for n, r in zip(x.shape, repeats, strict=True)])
    return repeated(call, x, repeats)


def repeated(call: Call, x: Value, repeats: Sequence[int]) -> Value:
    """Return copies of a tensor side by side."""
    if len(repeats) != x.type.ndim or min(repeats) < 1:
        call.refuse(f"repeats must be a number from 1 on for each axis of {x.type}, got {repeats}")
    apart = [n for extent in x.shape for n in (1, extent)]
    wide = [n for pair in zip(repeats, x.shape, strict=True) for n in pair]
    whole = [r * n for r, n in zip(repeats, x.shape, strict=True)]
    return call.reshape(call.broadcast(call.reshape(x, apart), wide), whole)


def _pad(call: Call) -> Value:
    """Surround a tensor with a value, or with elements of its own; cut off where negative."""
    x = call.value(0)
    pads = call.whole(1, "pads") if call.opset >= 11 else call.ints("pads") or ()
    axes = call.whole(3, "axes") if call.has(3) else tuple(range(x.type.ndim))
    if len(pads) != 2 * len(axes):
        call.refuse(f"pads must have {2 * len(axes)} numbers, got {list(pads)}")
    pairs = [(0, 0)] * x.type.ndim
    for axis, before, after in zip(axes, pads[: len(axes)], pads[len(axes) :], strict=True):
        pairs[call.axis(axis, x.type.ndim)] = (before, after)
    begin = tuple([max(-before, 0) for before, _ in pairs])
    end = tuple([n - max(-after, 0) for n, (_, after) in zip(x.shape, pairs, strict=True)])
    call.with_elements([max(b - a, 0) for a, b in zip(begin, end, strict=True)])
    if any(begin) or end != x.shape:
        x = call.apply(ops.StridedSlice(begin, end), x)
    pairs = [(max(before, 0), max(after, 0)) for before, after in pairs]
    mode = call.attribute("mode", "constant")
    if not any(map(any, pairs)):
        return x
    if mode == "constant":
        return call.apply(ops.Pad(tuple(pairs), _padding(call)), x)
    for axis, pair in enumerate(pairs):
        x = _mirrored(call, x, axis, pair, mode) if any(pair) else x
    return x


def _padding(call: Call) -> float:
    if call.opset < 11:
        return call.attribute("value", 0.0)
    if not call.has(2):
        return 0.0
    return float(call.known(2, "constant_value").reshape(-1)[0])


def _mirrored(call: Call, x: Value, axis: int, pair: tuple[int, int], mode: str) -> Value:
    """Surround an axis with elements of its own."""
    modes = ("edge", "reflect", "wrap")
    if mode not in modes:
        call.refuse(f"mode must be constant, {', '.join(modes)}, got {mode!r}")
    own = np.arange(x.shape[axis], dtype="int32")
    order = np.pad(own, pair, mode=mode)  # type: ignore[call-overload]
    return call.apply(ops.Take(axis), x, call.as_value(order))


def _depth_to_space(call: Call) -> Value:
    x, size = call.value(0), call.attribute("blocksize", 1)
    n, channels, height, width = x.shape
    out = channels // size**2
    if call.attribute("mode", "DCR") == "DCR":
        apart = call.reshape(x, (n, size, size, out, height, width))
        moved = call.transpose(apart, (0, 3, 4, 1, 5, 2))
    else:
        apart = call.reshape(x, (n, out, size, size, height, width))
        moved = call.transpose(apart, (0, 1, 4, 2, 5, 3))
    return call.reshape(moved, (n, out, height * size, width * size))


def _space_to_depth(call: Call) -> Value:
    x, size = call.value(0), call.attribute("blocksize", 1)
    n, channels, height, width = x.shape
    apart = call.reshape(x, (n, channels, height // size, size, width // size, size))
    depth_first = call.attribute("mode", "DCR") == "DCR"
    moved = call.transpose(apart, (0, 3, 5, 1, 2, 4) if depth_first else (0, 1, 3, 5, 2, 4))
    return call.reshape(moved, (n, channels * size**2, height // size, width // size))


def _triangle(call: Call) -> Value:
    """Clear one side of a diagonal."""
    x = call.value(0)
    offset = int(call.known(1, "k").reshape(-1)[0]) if call.has(1) else 0
    rows, columns = np.indices(x.shape[-2:])
    upper = call.attribute("upper", 1)
    kept = columns - rows >= offset if upper else columns - rows <= offset
    mask = call.broadcast(call.as_value(kept), x.shape)
    return call.apply(ops.Where(), mask, x, call.broadcast(call.number(0, x), x.shape))


CONVERTERS: dict[str, Converter] = {
    "Shape": _shape,
    "Size": _size,
    "Constant": _constant,
    "ConstantOfShape": _constant_of_shape,
    "EyeLike": _eye,
    "Reshape": _reshape,
    "Flatten": _flatten,
    "Squeeze": _squeeze,
    "Unsqueeze": _unsqueeze,
    "Transpose": _transpose,
    "Concat": _concat,
    "Split": _split,
    "SplitToSequence": _split_to_sequence,
    "Slice": _slice,
    "Expand": _expand,
    "Tile": _tile,
    "Pad": _pad,
    "DepthToSpace": _depth_to_space,
    "SpaceToDepth": _space_to_depth,
    "Trilu": _triangle,
}
