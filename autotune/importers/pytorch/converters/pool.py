"""Pooling over windows and over whole images."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from autotune.graph import Value, ops
from autotune.importers.pytorch.call import Call, converts
from autotune.importers.pytorch.windows import places_of_greatest

Sizes = Sequence[int] | int


def _each(sizes: Sizes | None, dims: int, default: Sequence[int] = ()) -> tuple[int, ...]:
    given = (sizes,) if isinstance(sizes, int) else tuple(sizes or default)
    return given * dims if len(given) == 1 else given


@converts(
    "max_pool1d", "max_pool2d", "max_pool3d", "max_pool2d_with_indices", "max_pool3d_with_indices"
)
def max_pool(
    call: Call, x: Value, kernel_size: Sizes, stride: Sizes | None = None, padding: Sizes = 0,
    dilation: Sizes = 1, ceil_mode: bool = False,
) -> Value | list[Value | None]:  # fmt: skip
    """Take the maximum of windows."""
    dims = _dims(call)
    sizes = _each(kernel_size, dims)
    windows = _windows(
        call, x, sizes, _each(stride, dims, sizes), _each(padding, dims), _each(dilation, dims)
    )
    result = _pooled(call, x, ops.MaxPool2d, windows)
    if "indices" not in call.name:
        return result
    parts = [
        [range(begin, begin + size * hole, hole) for begin in range(-side, -side + n * step, step)]
        for (size, step, (side, _), hole), n in zip(windows, call.type.shape[-dims:], strict=True)
    ]
    return [result, places_of_greatest(call, x, parts)]


def _dims(call: Call) -> int:
    return int(call.name[call.name.index("pool") + 4])


# Of an axis: extent of the window, step, padding before and behind, distance.
_Window = tuple[int, int, tuple[int, int], int]


def _windows(
    call: Call, x: Value, sizes: Sequence[int], steps: Sequence[int], sides: Sequence[int],
    holes: Sequence[int],
) -> list[_Window]:  # fmt: skip
    """Return the windows of each axis, which end where torch's last window does."""
    dims = len(sizes)
    found: list[_Window] = []
    extents, results_of = x.shape[-dims:], call.type.shape[-dims:]
    numbers = zip(extents, results_of, sizes, steps, sides, holes, strict=True)
    for extent, results, size, step, side, hole in numbers:
        last = (results - 1) * step + (size - 1) * hole + 1
        found.append((size, step, (side, max(side, last - extent - side)), hole))
    return found


def _pooled(
    call: Call, x: Value, op: type[ops.Pool2d], windows: Sequence[_Window], counts: bool = False
) -> Value:
    """Pool images; of volumes rows and columns first, then what is behind one another."""
    dims = len(windows)
    lead = x.shape[:-dims]
    planes = math.prod(lead)
    if dims == 3:
        depth, height, width = x.shape[-3:]
        x = call.reshape(x, (1, planes * depth, height, width))
        x = _images(call, x, op, windows[1:], counts)
        (height, width) = x.shape[2:]
        x = call.reshape(x, (1, planes, depth, height * width))
        x = _images(call, x, op, (windows[0], (1, 1, (0, 0), 1)), counts)
        return call.reshape(x, call.type.shape)
    row: tuple[_Window, ...] = ((1, 1, (0, 0), 1),) if dims == 1 else ()
    images = (x.shape[0], planes // x.shape[0]) if len(lead) == 2 else (1, planes)
    x = call.reshape(x, (*images, *(1,) * (2 - dims), *x.shape[-dims:]))
    return call.reshape(_images(call, x, op, (*row, *windows), counts), call.type.shape)


def _images(
    call: Call, x: Value, op: type[ops.Pool2d], windows: Sequence[_Window], counts: bool
) -> Value:
    """Pool images of two dimensions."""
    sizes, steps, sides, holes = zip(*windows, strict=True)
    padding = tuple(before for before, _ in sides) + tuple(after for _, after in sides)
    if op is ops.AvgPool2d:
        return call.apply(op(sizes, steps, padding, holes, count_include_pad=counts), x)
    return call.apply(op(sizes, steps, padding, holes), x)


@converts("avg_pool1d", "avg_pool2d", "avg_pool3d")
def avg_pool(
    call: Call, x: Value, kernel_size: Sizes, stride: Sizes | None = None, padding: Sizes = 0,
    ceil_mode: bool = False, count_include_pad: bool = True, divisor_override: int | None = None,
) -> Value:  # fmt: skip
    """Take the average of windows."""
    call.check_floats(x)
    dims = _dims(call)
    sizes = _each(kernel_size, dims)
    sides = _each(padding, dims)
    windows = _windows(call, x, sizes, _each(stride, dims, sizes), sides, (1,) * dims)
    exact = all(after == side for (_, _, (_, after), _), side in zip(windows, sides, strict=True))
    if divisor_override is None and (exact or not count_include_pad or not any(sides)):
        # Windows that reach beyond the padding do not count what is there.
        return _pooled(call, x, ops.AvgPool2d, windows, count_include_pad and exact)
    summed = _pooled(call, x, ops.AvgPool2d, windows, True)
    size = math.prod(sizes)
    if divisor_override is not None:
        return call.binary(ops.Multiply, summed, size / divisor_override, x.dtype)
    factor = np.ones([1] * x.type.ndim)
    numbers = zip(windows, sides, x.shape[-dims:], call.type.shape[-dims:], strict=True)
    first = x.type.ndim - dims
    for axis, ((extent, step, _, _), side, whole, results) in enumerate(numbers, first):
        begin = np.arange(results) * step - side
        counted = np.minimum(begin + extent, whole + side) - begin
        shape = [results if i == axis else 1 for i in range(x.type.ndim)]
        factor = factor * (extent / counted).reshape(shape)
    return call.apply(ops.Multiply(), summed, call.constant(factor, x.dtype))


@converts(
    "adaptive_avg_pool1d", "adaptive_avg_pool2d", "adaptive_avg_pool3d", "_adaptive_avg_pool2d",
    "_adaptive_avg_pool3d", "adaptive_max_pool1d", "adaptive_max_pool2d", "adaptive_max_pool3d",
)  # fmt: skip
def adaptive_pool(call: Call, x: Value, output_size: Sequence[int]) -> Value | list[Value | None]:
    """Divide images into as many windows as asked for, which may overlap."""
    dims = _dims(call)
    takes_max = "max" in call.name
    results = call.type.shape[-dims:]
    made: Value
    if set(results) == {1}:
        axes = tuple(range(x.type.ndim - dims, x.type.ndim))
        made = _whole(call, x, axes, takes_max)
    elif all(n % k == 0 for n, k in zip(x.shape[-dims:], results, strict=True)):
        windows: list[_Window] = [
            (n // k, n // k, (0, 0), 1) for n, k in zip(x.shape[-dims:], results, strict=True)
        ]
        made = _pooled(call, x, ops.MaxPool2d if takes_max else ops.AvgPool2d, windows)
    else:
        made = x
        for axis, count in enumerate(results, x.type.ndim - dims):
            made = _along(call, made, axis, count, takes_max)
    if not takes_max:
        return made
    parts = [
        [range(i * n // k, -(-(i + 1) * n // k)) for i in range(k)]
        for n, k in zip(x.shape[-dims:], results, strict=True)
    ]
    return [made, places_of_greatest(call, x, parts)]


def _whole(call: Call, x: Value, axes: tuple[int, ...], takes_max: bool) -> Value:
    """Pool whole images."""
    if x.type.ndim == 4 and len(axes) == 2:
        return call.apply(ops.GlobalMaxPool2d() if takes_max else ops.GlobalAvgPool2d(), x)
    return call.apply(ops.Max(axes, True) if takes_max else ops.Mean(axes, True), x)


def _along(call: Call, x: Value, axis: int, count: int, takes_max: bool) -> Value:
    """Pool along one axis: part i is from floor(i n / count) to ceil((i + 1) n / count)."""
    extent = x.shape[axis]
    if count == extent:
        return x
    op = ops.Max((axis,), True) if takes_max else ops.Mean((axis,), True)
    parts = [
        call.apply(op, call.slice(x, axis, i * extent // count, -(-(i + 1) * extent // count)))
        for i in range(count)
    ]
    return call.concatenate(parts, axis)
