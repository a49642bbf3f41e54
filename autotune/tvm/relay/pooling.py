"""Pools of ``relay.nn`` over windows, over whole images, and to results of some extents."""

from __future__ import annotations

import math
from typing import Protocol

from autotune.errors import GraphError
from autotune.graph import Operator, Value, apply, ops
from autotune.tvm.relay.arguments import (
    Numbers,
    check_values,
    each_axis,
    sides_of,
    whole_numbers,
    windows,
)
from autotune.tvm.relay.convolutions import in_a_row, of_a_row
from autotune.tvm.relay.forms import in_layout
from autotune.tvm.relay.rearranged import reshape
from autotune.utils.check import Check

__all__ = [
    "adaptive_avg_pool1d",
    "adaptive_avg_pool2d",
    "adaptive_avg_pool3d",
    "adaptive_max_pool1d",
    "adaptive_max_pool2d",
    "adaptive_max_pool3d",
    "avg_pool1d",
    "avg_pool2d",
    "avg_pool3d",
    "global_avg_pool1d",
    "global_avg_pool2d",
    "global_avg_pool3d",
    "global_max_pool1d",
    "global_max_pool2d",
    "global_max_pool3d",
    "max_pool1d",
    "max_pool2d",
    "max_pool3d",
]

_SPATIAL = {1: "W", 2: "HW", 3: "DHW"}


class MaxPool(Protocol):
    """A maximum of windows as relay calls it."""

    def __call__(
        self,
        data: Value,
        pool_size: Numbers = 1,
        strides: Numbers = 1,
        dilation: Numbers = 1,
        padding: Numbers = 0,
        layout: str = ...,
        out_layout: str = "",
        ceil_mode: bool = False,
    ) -> Value:
        """Take the maximum of windows."""


class AvgPool(Protocol):
    """An average of windows as relay calls it."""

    def __call__(
        self,
        data: Value,
        pool_size: Numbers = 1,
        strides: Numbers = 1,
        dilation: Numbers = 1,
        padding: Numbers = 0,
        layout: str = ...,
        out_layout: str = "",
        ceil_mode: bool = False,
        count_include_pad: bool = False,
    ) -> Value:
        """Take the average of windows."""


class GlobalPool(Protocol):
    """A pool over whole images as relay calls it."""

    def __call__(self, data: Value, layout: str = ..., out_layout: str = "") -> Value:
        """Pool whole images."""


class AdaptivePool(Protocol):
    """A pool to results of some extents as relay calls it."""

    def __call__(
        self,
        data: Value,
        output_size: Numbers | None = None,
        layout: str = ...,
        out_layout: str = "",
    ) -> Value:
        """Pool to results of some extents; by default those of the data."""


def _max_pool(dims: int) -> MaxPool:
    name = f"nn.max_pool{dims}d"

    def operator(
        data: Value,
        pool_size: Numbers = 1,
        strides: Numbers = 1,
        dilation: Numbers = 1,
        padding: Numbers = 0,
        layout: str = "NC" + _SPATIAL[dims],
        out_layout: str = "",
        ceil_mode: bool = False,
    ) -> Value:
        moves = (strides, padding, dilation)
        pooled = _pooled(name, ops.MaxPool2d, data, pool_size, moves, layout, ceil_mode, False)
        return in_layout(name, pooled, layout, out_layout)

    operator.__name__ = operator.__qualname__ = name.removeprefix("nn.")
    operator.__doc__ = f"Take the maximum of windows of {dims} dimensions."
    return operator


def _avg_pool(dims: int) -> AvgPool:
    name = f"nn.avg_pool{dims}d"

    def operator(
        data: Value,
        pool_size: Numbers = 1,
        strides: Numbers = 1,
        dilation: Numbers = 1,
        padding: Numbers = 0,
        layout: str = "NC" + _SPATIAL[dims],
        out_layout: str = "",
        ceil_mode: bool = False,
        count_include_pad: bool = False,
    ) -> Value:
        Check(GraphError, name).flag("count_include_pad", count_include_pad)
        moves = (strides, padding, dilation)
        pooled = _pooled(
            name, ops.AvgPool2d, data, pool_size, moves, layout, ceil_mode, count_include_pad
        )
        return in_layout(name, pooled, layout, out_layout)

    operator.__name__ = operator.__qualname__ = name.removeprefix("nn.")
    operator.__doc__ = f"Take the average of windows of {dims} dimensions."
    return operator


def _pooled(
    name: str,
    op: type[ops.Pool2d],
    data: Value,
    size: Numbers,
    moves: tuple[Numbers, Numbers, Numbers],
    layout: str,
    ceil_mode: bool,
    counts: bool,
) -> Value:
    """Pool images; lines as images of one row, and volumes over each plane and then over planes.

    Args:
        name: of the operator.
        op: what is taken of a window.
        data: images.
        size: of windows.
        moves: strides, padding and dilation.
        layout: of the images.
        ceil_mode: whether the last window may extend beyond the padding.
        counts: whether averages count the padding.
    """
    check_values(name, data=data)
    Check(GraphError, name).flag("ceil_mode", ceil_mode)
    dims = _check_layout(name, data, layout)
    if dims == 2:
        extents = whole_numbers(name, "pool_size", size)
        steps, sides, holes = windows(name, *moves)
        return apply(op(extents, steps, sides, holes, layout, ceil_mode, counts), data)
    window = each_axis(name, "pool_size", size, dims)
    steps = each_axis(name, "strides", moves[0], dims)
    sides = sides_of(name, moves[1], dims)
    holes = each_axis(name, "dilation", moves[2], dims)
    images = "NCHW" if layout[1] == "C" else "NHWC"
    if dims == 1:
        row = op(
            (1, *window), (1, *steps), (0, sides[0], 0, sides[1]), (1, *holes), images, ceil_mode,
            counts,
        )  # fmt: skip
        return of_a_row(apply(row, in_a_row(data, layout)), images)
    if op is ops.AvgPool2d and "float" not in data.dtype:
        # Two averages, each rounded, are not the average.
        Check(GraphError, name).refuse("data", "of floats; cast it first", data.type)
    front, top, left, back, bottom, right = sides
    plane = op(
        window[1:], steps[1:], (top, left, bottom, right), holes[1:], images, ceil_mode, counts
    )
    depth = op(
        (window[0], 1), (steps[0], 1), (front, 0, back, 0), (holes[0], 1), images, ceil_mode,
        counts,
    )  # fmt: skip
    return _over_volumes(data, images, plane, depth)


def _over_volumes(data: Value, layout: str, plane: Operator, depth: Operator) -> Value:
    """Apply one operator on images to each plane, and another to what lies behind one another."""
    if layout == "NCHW":
        n, c, d, h, w = data.shape
        flat = apply(plane, reshape(data, (n, c * d, h, w)))
        h, w = flat.shape[2:]
        deep = apply(depth, reshape(flat, (n, c, d, h * w)))
        return reshape(deep, (n, c, deep.shape[2], h, w))
    n, d, h, w, c = data.shape
    flat = apply(plane, reshape(data, (n * d, h, w, c)))
    h, w = flat.shape[1:3]
    deep = apply(depth, reshape(flat, (n, d, h * w, c)))
    return reshape(deep, (n, deep.shape[1], h, w, c))


def _check_layout(name: str, data: Value, layout: str) -> int:
    """Return the number of dimensions of images, after checking that they have a layout."""
    dims = int(name[-2])
    space = _SPATIAL[dims]
    check = Check(GraphError, name)
    check.one_of("layout", layout, ("NC" + space, f"N{space}C"))
    if data.type.ndim != dims + 2:
        check.refuse("data", f"of the dimensions {layout}", data.type)
    return dims


def _global_pool(kind: str, dims: int) -> GlobalPool:
    name = f"nn.global_{kind}_pool{dims}d"

    def operator(data: Value, layout: str = "NC" + _SPATIAL[dims], out_layout: str = "") -> Value:
        check_values(name, data=data)
        _check_layout(name, data, layout)
        return in_layout(name, _whole(kind, data, layout), layout, out_layout)

    operator.__name__ = operator.__qualname__ = name.removeprefix("nn.")
    operator.__doc__ = f"Pool whole images of {dims} dimensions ({kind})."
    return operator


def _whole(kind: str, data: Value, layout: str) -> Value:
    """Pool whole images."""
    if len(layout) == 4:
        of_images = ops.GlobalAvgPool2d if kind == "avg" else ops.GlobalMaxPool2d
        return apply(of_images(layout), data)
    if len(layout) == 5 and kind == "avg":
        return apply(ops.GlobalAvgPool3d(layout), data)
    axes = tuple(i for i, letter in enumerate(layout) if letter in "DHW")
    return apply(ops.Mean(axes, True) if kind == "avg" else ops.Max(axes, True), data)


def _adaptive_pool(kind: str, dims: int) -> AdaptivePool:
    name = f"nn.adaptive_{kind}_pool{dims}d"

    def operator(
        data: Value,
        output_size: Numbers | None = None,
        layout: str = "NC" + _SPATIAL[dims],
        out_layout: str = "",
    ) -> Value:
        check_values(name, data=data)
        _check_layout(name, data, layout)
        axes = [i for i, letter in enumerate(layout) if letter in "DHW"]
        extents = [data.shape[axis] for axis in axes]
        counts = () if output_size is None else whole_numbers(name, "output_size", output_size)
        wanted = each_axis(name, "output_size", counts, dims) if counts else extents
        found = _adapted(kind, data, axes, wanted, layout)
        return in_layout(name, found, layout, out_layout)

    operator.__name__ = operator.__qualname__ = name.removeprefix("nn.")
    operator.__doc__ = f"Pool images of {dims} dimensions to some extents ({kind})."
    return operator


def _adapted(kind: str, data: Value, axes: list[int], wanted: Numbers, layout: str) -> Value:
    """Divide images into as many windows as asked for, which may overlap."""
    results = whole_numbers("adaptive pool", "output_size", wanted)
    extents = [data.shape[axis] for axis in axes]
    if math.prod(results) == 1:
        return _whole(kind, data, layout)
    if all(extent % n == 0 for extent, n in zip(extents, results, strict=True)):
        window = [extent // n for extent, n in zip(extents, results, strict=True)]
        op = ops.MaxPool2d if kind == "max" else ops.AvgPool2d
        name = f"nn.{kind}_pool{len(axes)}d"
        return _pooled(name, op, data, window, (window, 0, 1), layout, False, False)
    for axis, count in zip(axes, results, strict=True):
        data = _along(kind, data, axis, count)
    return data


def _along(kind: str, data: Value, axis: int, count: int) -> Value:
    """Pool along one axis: part i is from floor(i n / count) to ceil((i + 1) n / count)."""
    extent = data.shape[axis]
    if count == extent:
        return data
    op = ops.Max((axis,), True) if kind == "max" else ops.Mean((axis,), True)
    parts = []
    for i in range(count):
        begin = (*[0] * axis, i * extent // count)
        end = (*data.shape[:axis], -(-(i + 1) * extent // count))
        parts.append(apply(op, apply(ops.StridedSlice(begin, end), data)))
    return apply(ops.Concatenate(axis), *parts)


max_pool1d, max_pool2d, max_pool3d = map(_max_pool, (1, 2, 3))
avg_pool1d, avg_pool2d, avg_pool3d = map(_avg_pool, (1, 2, 3))
global_max_pool1d, global_max_pool2d, global_max_pool3d = (
    _global_pool("max", dims) for dims in (1, 2, 3)
)
global_avg_pool1d, global_avg_pool2d, global_avg_pool3d = (
    _global_pool("avg", dims) for dims in (1, 2, 3)
)
adaptive_max_pool1d, adaptive_max_pool2d, adaptive_max_pool3d = (
    _adaptive_pool("max", dims) for dims in (1, 2, 3)
)
adaptive_avg_pool1d, adaptive_avg_pool2d, adaptive_avg_pool3d = (
    _adaptive_pool("avg", dims) for dims in (1, 2, 3)
)
