"""Pooling over windows and over whole images."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np

from autotune.graph import Array, Constant, Value, ops
from autotune.importers.onnx.call import Call, Converter
from autotune.importers.onnx.operators.convolution import Windows, windows_of


def _windows(call: Call, x: Value) -> Windows:
    """Return the windows; with ``ceil_mode`` padded so that the last one fits."""
    kernel = call.ints("kernel_shape") or ()
    windows = windows_of(call, x.shape[2:], kernel)
    if not call.attribute("ceil_mode", 0):
        return windows
    sides = []
    numbers = zip(
        x.shape[2:], kernel, windows.strides, windows.dilations, windows.sides, strict=True
    )
    for extent, size, stride, dilation, (before, after) in numbers:
        room = extent + before + after - (size - 1) * dilation - 1
        last = -(-room // stride)
        # A window that would begin in the padding after is left out.
        last -= last * stride >= extent + before
        sides.append(
            (before, max(after, last * stride + (size - 1) * dilation + 1 - extent - before))
        )
    return replace(windows, sides=tuple(sides))


def _pooled(call: Call, x: Value, windows: Windows, op: type[ops.Pool2d]) -> Value:
    """Pool over windows, two axes at a time; averages count the padding."""
    dims = x.type.ndim - 2
    if dims == 2:
        return call.apply(_counting(op, windows), x)
    if dims == 1:
        ((before, after),) = windows.sides
        rows = call.reshape(x, (*x.shape[:2], 1, x.shape[2]))
        in_rows = Windows(
            (1, *windows.kernel), (1, *windows.strides), (1, *windows.dilations),
            ((0, 0), (before, after)),
        )  # fmt: skip
        out = call.apply(_counting(op, in_rows), rows)
        return call.reshape(out, (*out.shape[:2], out.shape[3]))
    if dims != 3:
        call.refuse(f"images must have 1 to 3 dimensions, got {x.type}")
    return _pooled_volume(call, x, windows, op)


def _counting(op: type[ops.Pool2d], windows: Windows) -> ops.Pool2d:
    """Return the operator of two axes; its averages count the padding."""
    return op(
        windows.kernel, windows.strides, windows.padding, windows.dilations,
        count_include_pad=op is ops.AvgPool2d,
    )  # fmt: skip


def _pooled_volume(call: Call, x: Value, windows: Windows, op: type[ops.Pool2d]) -> Value:
    """Pool over rows and columns, and then over the planes."""
    n, channels, depth, height, width = x.shape
    planes = call.reshape(x, (n * channels, depth, height, width))
    inner = Windows(
        windows.kernel[1:], windows.strides[1:], windows.dilations[1:], windows.sides[1:]
    )
    planes = _pooled(call, planes, inner, op)
    rows, columns = planes.shape[2:]
    flat = call.reshape(planes, (n * channels, 1, depth, rows * columns))
    outer = Windows(
        (windows.kernel[0], 1), (windows.strides[0], 1), (windows.dilations[0], 1),
        (windows.sides[0], (0, 0)),
    )  # fmt: skip
    out = _pooled(call, flat, outer, op)
    return call.reshape(out, (n, channels, out.shape[2], rows, columns))


def _max_pool(call: Call) -> Value:
    if call.attribute("storage_order", 0):
        call.refuse("storage_order 1 is not supported")
    if len([name for name in call.node.outputs if name]) > 1:
        call.refuse("its second output, the indices, is not supported")
    x = call.value(0)
    return _pooled(call, x, _windows(call, x), ops.MaxPool2d)


def _average_pool(call: Call) -> Value:
    """Take averages; where the padding does not count, of what is there in each window."""
    x = call.value(0)
    windows = _windows(call, x)
    given = windows_of(call, x.shape[2:], call.ints("kernel_shape") or ())
    counts_padding = bool(call.attribute("count_include_pad", 0))
    plain = not any(windows.padding) if not counts_padding else windows == given
    if plain:
        return _pooled(call, x, windows, ops.AvgPool2d)
    if x.type.ndim == 4 and not counts_padding:
        op = ops.AvgPool2d(windows.kernel, windows.strides, windows.padding, windows.dilations)
        return call.apply(op, x)
    share = _share(x.shape[2:], windows, given if counts_padding else None)
    average = _pooled(call, x, windows, ops.AvgPool2d)
    return call.apply(ops.Divide(), average, Constant.of(share.astype(x.dtype)))


def _share(extents: tuple[int, ...], windows: Windows, counted: Windows | None) -> Array:
    """Return which share of each window is inside of the images, or in the padding that counts."""
    share = np.ones((), "float64")
    for axis, extent in enumerate(extents):
        before, after = windows.sides[axis]
        inside = np.zeros(before + extent + after)
        extra = counted.sides[axis] if counted else (0, 0)
        inside[before - extra[0] : before + extent + extra[1]] = 1
        reach = (windows.kernel[axis] - 1) * windows.dilations[axis] + 1
        view = np.lib.stride_tricks.sliding_window_view(inside, reach)
        own = view[:: windows.strides[axis], :: windows.dilations[axis]].mean(1)
        share = share[..., None] * own
    return share


def _global(kind: str) -> Converter:
    """Return the converter of pooling over whole images."""

    def convert(call: Call) -> Value:
        x = call.value(0)
        if x.type.ndim == 4:
            op = ops.GlobalAvgPool2d() if kind == "avg" else ops.GlobalMaxPool2d()
            return call.apply(op, x)
        if x.type.ndim == 5 and kind == "avg":
            return call.apply(ops.GlobalAvgPool3d(), x)
        axes = tuple(range(2, x.type.ndim))
        return call.apply(ops.Mean(axes, True) if kind == "avg" else ops.Max(axes, True), x)

    return convert


def _lp_pool(call: Call) -> Value:
    """Take the root of sums of powers over windows."""
    x, p = call.value(0), call.attribute("p", 2)
    windows = _windows(call, x)
    size = call.apply(ops.Abs(), x)
    powers = size if p == 1 else call.binary(ops.Power, size, p)
    powers = call.apply(ops.Multiply(), x, x) if p == 2 else powers
    total = call.binary(
        ops.Multiply, _pooled(call, powers, windows, ops.AvgPool2d), math.prod(windows.kernel)
    )
    return total if p == 1 else root(call, total, p)


def root(call: Call, value: Value, p: int) -> Value:
    """Return the root of degree p."""
    return call.apply(ops.Sqrt(), value) if p == 2 else call.binary(ops.Power, value, 1 / p)


def _global_lp(call: Call) -> Value:
    x, p = call.value(0), call.attribute("p", 2)
    axes = tuple(range(2, x.type.ndim))
    size = call.apply(ops.Abs(), x)
    powers = size if p == 1 else call.binary(ops.Power, size, p)
    total = call.apply(ops.Sum(axes, True), powers)
    return total if p == 1 else root(call, total, p)


CONVERTERS: dict[str, Converter] = {
    "MaxPool": _max_pool,
    "AveragePool": _average_pool,
    "LpPool": _lp_pool,
    "GlobalAveragePool": _global("avg"),
    "GlobalMaxPool": _global("max"),
    "GlobalLpPool": _global_lp,
}
