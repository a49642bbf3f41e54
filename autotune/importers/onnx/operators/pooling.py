"""Pooling over windows and over whole images."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np

from autotune.graph import Array, Constant, Value, ops
from autotune.importers.onnx.call import Call, Converter
from autotune.importers.onnx.operators.convolution import Windows, windows_of
from autotune.importers.onnx.shape_rules import of_some_size
from autotune.importers.ranks import written_along


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


def _max_pool(call: Call) -> Value | list[Value]:
    x = call.value(0)
    windows = _windows(call, x)
    pooled = _pooled(call, x, windows, ops.MaxPool2d)
    if len([name for name in call.node.outputs if name]) < 2:
        return pooled
    return [pooled, call.reshape(_places(call, x, windows), pooled.shape)]


def _places(call: Call, x: Value, windows: Windows) -> Value:
    """Return the index of the first greatest element of each window among all elements."""
    extents = x.shape[2:]
    images, size = math.prod(x.shape[:2]), math.prod(extents)
    of_some_size(call, [math.prod(windows.kernel), size])
    inside = np.pad(np.arange(size).reshape(extents), windows.sides, constant_values=size)
    reach = [(k - 1) * d + 1 for k, d in zip(windows.kernel, windows.dilations, strict=True)]
    view = np.lib.stride_tricks.sliding_window_view(inside, reach)
    view = view[tuple(slice(None, None, n) for n in (*windows.strides, *windows.dilations))]
    table = view.reshape(-1, math.prod(windows.kernel))
    # What is outside comes last: it is no more than the least number, which may be inside too.
    table = np.take_along_axis(table, np.argsort(table == size, axis=1, kind="stable"), axis=1)
    least = np.iinfo(x.dtype).min if "int" in x.dtype else -np.inf
    outside = call.as_value(np.full((images, 1), least).astype(x.dtype))
    rows = call.apply(ops.Concatenate(1), call.reshape(x, (images, size)), outside)
    found = call.apply(ops.Take(1), rows, call.as_value(table.astype("int32")))
    first = call.cast(call.apply(ops.Argmax((2,)), found), "int32")
    begin = (np.arange(len(table), dtype="int32") * table.shape[1])[None]
    at = call.apply(ops.Add(), first, call.as_value(begin))
    order = np.arange(size + 1)
    if call.attribute("storage_order", 0):  # columns come one after another
        order[:size] = np.arange(size).reshape(extents[::-1]).transpose().reshape(-1)
    places = call.as_value(order[table].reshape(-1))
    image = call.as_value((np.arange(images) * size)[:, None])
    return call.apply(ops.Add(), call.apply(ops.Take(0), places, at), image)


def _max_unpool(call: Call) -> Value:
    """Put elements where the maximum of their window was, and zeros elsewhere."""
    x, index = call.value(0), call.value(1)
    dims = x.type.ndim - 2
    windows = windows_of(call, x.shape[2:], call.ints("kernel_shape") or ())
    numbers = zip(x.shape[2:], windows.strides, windows.kernel, windows.sides, strict=True)
    extents = [(n - 1) * step + k - a - b for n, step, k, (a, b) in numbers]
    images, size = math.prod(x.shape[:2]), math.prod(extents)
    of_some_size(call, [images, size])
    flat = (images, math.prod(x.shape[2:]))
    begin = call.as_value((np.arange(images, dtype=index.dtype) * size)[:, None])
    places = call.apply(ops.Subtract(), call.reshape(index, flat), begin)
    nothing = call.as_value(np.zeros((images, size), x.dtype))
    spread = written_along(nothing, places, call.reshape(x, flat), 1, "none", call.node.label)
    spread = call.reshape(spread, (*x.shape[:2], *extents))
    if not call.has(2):
        return spread
    wanted = call.whole(2, "output_shape")
    spare = [n - m for n, m in zip(wanted[2:], extents, strict=False)]
    if len(wanted) != dims + 2 or tuple(wanted[:2]) != x.shape[:2] or min(spare) < 0:
        call.refuse(f"output_shape must be at least {list(spread.shape)}, got {list(wanted)}")
    return call.apply(ops.Pad(((0, 0), (0, 0), *[(0, n) for n in spare])), spread)


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
    "MaxUnpool": _max_unpool,
    "AveragePool": _average_pool,
    "LpPool": _lp_pool,
    "GlobalAveragePool": _global("avg"),
    "GlobalMaxPool": _global("max"),
    "GlobalLpPool": _global_lp,
}
