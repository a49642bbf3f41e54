"""Fourier transforms as products with matrices of cosines and sines."""

from __future__ import annotations

import math

import numpy as np

from autotune.graph import Array, Value, ops
from autotune.importers.onnx.call import Call, Converter
from autotune.importers.onnx.shape_rules import of_some_size
from autotune.importers.onnx.tensors import dtype_of


def _matrix(call: Call, points: int, rows: int, columns: int, inverse: bool) -> Array:
    """Return [rows * 2, columns * 2]: pairs of a number times it are their transform.

    Args:
        call: the operator.
        points: of the transform.
        rows: how many numbers there are; the others are 0.
        columns: how many frequencies are wanted.
        inverse: whether it is the inverse transform, with its factor.
    """
    of_some_size(call, [rows, 4 * columns])
    turns = np.outer(np.arange(rows), np.arange(columns)) % points
    angle = (2 if inverse else -2) * math.pi / points * turns
    cos, sin = np.cos(angle), np.sin(angle)
    whole = np.empty((rows, 2, columns, 2))
    whole[:, 0, :, 0], whole[:, 0, :, 1] = cos, sin
    whole[:, 1, :, 0], whole[:, 1, :, 1] = -sin, cos
    factor = 1 / points if inverse else 1.0
    result: Array = (whole * factor).reshape(2 * rows, 2 * columns)
    return result


def _transform(call: Call) -> Value:
    """Transform along one axis; the last axis has the real and the imaginary part."""
    x = call.value(0)
    ndim, parts = x.type.ndim, x.shape[-1]
    if parts not in (1, 2):
        call.refuse(f"the last axis must have 1 or 2 numbers, got {x.type}")
    if call.opset >= 20:
        axis = call.whole(2, "axis")[0] if call.has(2) else -2
    else:
        axis = call.attribute("axis", 1)
    axis = call.axis(axis, ndim)
    extent = x.shape[axis]
    points = call.whole(1, "dft_length")[0] if call.has(1) else extent
    inverse, one_sided = bool(call.attribute("inverse", 0)), bool(call.attribute("onesided", 0))
    if inverse and one_sided:  # the other half of the frequencies is their conjugate
        return _real_inverse(call, x, axis, points if call.has(1) else 2 * (extent - 1))
    wanted = points // 2 + 1 if one_sided else points
    rows = min(extent, points)
    matrix = _matrix(call, points, rows, wanted, inverse).reshape(rows, 2, -1)[:, :parts]
    return _times(call, x, axis, matrix.reshape(rows * parts, -1), 2)


def _times(call: Call, x: Value, axis: int, matrix: Array, parts: int) -> Value:
    """Multiply the numbers of an axis, with their parts, by a matrix."""
    own = x.shape[-1]
    rows = matrix.shape[0] // own
    if rows < x.shape[axis]:
        x = call.apply(ops.StridedSlice((0,) * (axis + 1), (*x.shape[:axis], rows)), x)
    order = [i for i in range(x.type.ndim - 1) if i != axis]
    moved = call.transpose(x, (*order, axis, x.type.ndim - 1))
    outer = moved.shape[:-2]
    flat = call.reshape(moved, (math.prod(outer), rows * own))
    weight = call.as_value(np.ascontiguousarray(matrix.T).astype(x.dtype))
    out = call.apply(ops.Dense(), flat, weight)
    out = call.reshape(out, (*outer, matrix.shape[1] // parts, parts))
    back = [*range(axis), len(outer), *range(axis, len(outer)), len(outer) + 1]
    return call.transpose(out, back)


def _real_inverse(call: Call, x: Value, axis: int, points: int) -> Value:
    """Return the real numbers whose transform begins with the given frequencies."""
    rows = points // 2 + 1
    matrix = _matrix(call, points, rows, points, True).reshape(rows, 2, points, 2)[..., 0]
    twice = np.full(rows, 2.0)
    twice[0] = 1
    if points % 2 == 0:
        twice[-1] = 1
    matrix = (matrix * twice[:, None, None]).reshape(2 * rows, points)
    return _times(call, x, axis, matrix, 1)


def _short_time(call: Call) -> Value:
    """Transform frames of a signal: a convolution by windowed cosines and sines."""
    signal = call.value(0)
    step = call.whole(1, "frame_step")[0]
    window = call.known(2, "window") if call.has(2) else None
    if call.has(3):
        size = call.whole(3, "frame_length")[0]
    elif window is not None:
        size = window.size
    else:
        call.refuse("expected a window or frame_length")
    if signal.type.ndim == 3 and signal.shape[2] != 1:
        call.refuse("signals of complex numbers are not supported")
    wanted = size // 2 + 1 if call.attribute("onesided", 1) else size
    matrix = _matrix(call, size, size, wanted, False).reshape(size, 2, -1)[:, 0]
    matrix = matrix if window is None else matrix * window.astype("float64")[:, None]
    filters = np.ascontiguousarray(matrix.T).reshape(2 * wanted, 1, 1, size)
    batch, length = signal.shape[:2]
    rows = call.reshape(signal, (batch, 1, 1, length))
    out = call.apply(ops.Conv2d((1, step)), rows, call.as_value(filters.astype(signal.dtype)))
    frames = out.shape[3]
    moved = call.transpose(call.reshape(out, (batch, 2 * wanted, frames)), (0, 2, 1))
    return call.reshape(moved, (batch, frames, wanted, 2))


def _mel_filters(call: Call) -> Value:
    """Return [frequencies, bands]: triangles between the edges of bands, even on the mel scale.

    The edges are rounded down to frequencies of the transform. A rising side without length has
    its top alone, a falling one nothing.
    """
    numbers = [float(call.known(i, "a parameter").reshape(-1)[0]) for i in range(5)]
    bands, points, rate = map(int, numbers[:3])
    low, high = [2595 * math.log10(1 + edge / 700) for edge in numbers[3:]]
    of_some_size(call, [points // 2 + 1, bands])
    mels = np.arange(bands + 2) * (high - low) / (bands + 2) + low
    hertz = 700 * (10 ** (mels / 2595) - 1)
    begin, top, end = (
        ((points + 1) * hertz // rate).astype("int64")[i : bands + i] for i in range(3)
    )
    at = np.arange(points // 2 + 1)[:, None]
    rising = np.where(begin == top, 1.0, (at - begin) / np.maximum(top - begin, 1))
    falling = (end - at) / np.maximum(end - top, 1)
    filters = np.where((at >= begin) & (at <= top), rising, 0.0)
    filters = np.where((at >= top) & (at < end), falling, filters)
    dtype = dtype_of(call.attribute("output_datatype", 1), call.node.label)
    return call.cast(call.as_value(filters.astype("float64")), dtype)


CONVERTERS: dict[str, Converter] = {
    "DFT": _transform,
    "MelWeightMatrix": _mel_filters,
    "STFT": _short_time,
}
