"""Convolutions and their gradients."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from autotune.graph import Value, ops
from autotune.importers.deformed import DeformedConvolution
from autotune.importers.onnx.call import Call, Converter
from autotune.importers.onnx.shape_rules import of_some_size

Sides = tuple[tuple[int, int], ...]


@dataclass(frozen=True)
class Windows:
    """Extents, steps, distances and padding of windows, one for each axis of the images."""

    kernel: tuple[int, ...]
    strides: tuple[int, ...]
    dilations: tuple[int, ...]
    sides: Sides

    @property
    def padding(self) -> tuple[int, ...]:
        """All padding before, and all after."""
        return (*[before for before, _ in self.sides], *[after for _, after in self.sides])


def windows_of(call: Call, extents: Sequence[int], kernel: Sequence[int]) -> Windows:
    """Return the windows that the attributes say, over images of some extents."""
    dims = len(extents)
    strides = call.ints("strides") or (1,) * dims
    dilations = call.ints("dilations") or (1,) * dims
    if not len(kernel) == len(strides) == len(dilations) == dims:
        call.refuse(f"kernel_shape, strides and dilations must have {dims} numbers")
    reach = [(k - 1) * d + 1 for k, d in zip(kernel, dilations, strict=True)]
    auto = call.attribute("auto_pad", "NOTSET")
    if auto in ("SAME_UPPER", "SAME_LOWER"):
        sides = same_sides(extents, reach, strides, auto == "SAME_UPPER")
    elif auto == "VALID":
        sides = ((0, 0),) * dims
    else:
        pads = call.ints("pads") or (0,) * (2 * dims)
        if len(pads) != 2 * dims:
            call.refuse(f"pads must have {2 * dims} numbers, got {list(pads)}")
        sides = tuple(zip(pads[:dims], pads[dims:], strict=True))
    return Windows(tuple(kernel), strides, dilations, sides)


def filter_windows(call: Call, x: Value, weight: Value) -> Windows:
    """Return the windows of filters, whose extents the attributes may repeat."""
    kernel = weight.shape[2:]
    if (call.ints("kernel_shape") or kernel) != kernel:
        call.refuse(f"kernel_shape must be that of filters {weight.type}, {list(kernel)}")
    return windows_of(call, x.shape[2:], kernel)


def same_sides(
    extents: Sequence[int], reach: Sequence[int], strides: Sequence[int], upper: bool
) -> Sides:
    """Return the padding with which as many windows fit as strides do; an odd one goes after."""
    sides = []
    for extent, size, stride in zip(extents, reach, strides, strict=True):
        total = max((math.ceil(extent / stride) - 1) * stride + size - extent, 0)
        small, large = total // 2, total - total // 2
        sides.append((small, large) if upper else (large, small))
    return tuple(sides)


def without_negative(call: Call, x: Value, windows: Windows) -> tuple[Value, Windows]:
    """Cut off what negative padding removes."""
    if min(windows.padding) >= 0:
        return x, windows
    begin = [0, 0, *[max(-before, 0) for before, _ in windows.sides]]
    ends = zip(x.shape[2:], windows.sides, strict=True)
    end = [*x.shape[:2], *[n + min(after, 0) for n, (_, after) in ends]]
    sides = tuple([(max(before, 0), max(after, 0)) for before, after in windows.sides])
    cut = call.apply(ops.StridedSlice(tuple(begin), tuple(end)), x)
    return cut, Windows(windows.kernel, windows.strides, windows.dilations, sides)


def convolve(call: Call, x: Value, weight: Value, windows: Windows, groups: int) -> Value:
    """Convolve images of one to three dimensions, channels first."""
    x, windows = without_negative(call, x, windows)
    if x.type.ndim == 3:
        return _convolve_rows(call, x, weight, windows, groups)
    attributes = (windows.strides, windows.padding, windows.dilations)
    if x.type.ndim == 4:
        return call.apply(ops.Conv2d(*attributes, groups), x, weight)
    if x.type.ndim != 5:
        call.refuse(f"images must have 1 to 3 dimensions, got {x.type}")
    if groups == 1:
        return call.apply(ops.Conv3d(*attributes), x, weight)
    data = call.several(ops.Split(groups, 1), x)
    filters = call.several(ops.Split(groups, 0), weight)
    pairs = zip(data, filters, strict=True)
    parts = [call.apply(ops.Conv3d(*attributes), a, b) for a, b in pairs]
    return call.apply(ops.Concatenate(1), *parts)


def _convolve_rows(call: Call, x: Value, weight: Value, windows: Windows, groups: int) -> Value:
    """Convolve images of one dimension as ones of two, of one row."""
    ((before, after),) = windows.sides
    rows = call.reshape(x, (*x.shape[:2], 1, x.shape[2]))
    filters = call.reshape(weight, (*weight.shape[:2], 1, weight.shape[2]))
    op = ops.Conv2d((1, *windows.strides), (0, before, 0, after), (1, *windows.dilations), groups)
    out = call.apply(op, rows, filters)
    return call.reshape(out, (*out.shape[:2], out.shape[3]))


def with_bias(call: Call, x: Value, index: int) -> Value:
    """Add the bias of each channel, if there is one."""
    bias = call.optional(index)
    return x if bias is None else call.apply(ops.BiasAdd(1), x, bias)


def _convolution(call: Call) -> Value:
    x, weight = call.value(0), call.value(1)
    if x.type.ndim < 3 or weight.type.ndim != x.type.ndim:
        call.refuse(
            f"expected images and filters of one rank from 3 on, got {x.type}, {weight.type}"
        )
    windows = filter_windows(call, x, weight)
    out = convolve(call, x, weight, windows, call.attribute("group", 1))
    return with_bias(call, out, 2)


def _transposed(call: Call) -> Value:
    """Spread images by filters; those of one dimension have one row."""
    x, weight = call.value(0), call.value(1)
    dims = x.type.ndim - 2
    if dims not in (1, 2, 3):
        call.refuse(f"images must have 1 to 3 dimensions, got {x.type}")
    groups = call.attribute("group", 1)
    spread = _Spread.of(call, x.shape[2:], weight.shape[2:])
    return with_bias(call, _spread(call, x, weight, spread, groups), 2)


def _spread(call: Call, x: Value, weight: Value, spread: _Spread, groups: int) -> Value:
    """Spread images of any number of dimensions."""
    dims = x.type.ndim - 2
    if dims == 1:
        rows = call.reshape(x, (*x.shape[:2], 1, x.shape[2]))
        filters = call.reshape(weight, (*weight.shape[:2], 1, weight.shape[2]))
        out = _grouped(call, rows, filters, spread.with_row(), groups)
        return call.reshape(out, (*out.shape[:2], out.shape[3]))
    if dims == 2:
        return _grouped(call, x, weight, spread, groups)
    return _dilated(call, x, weight, spread, groups)


def _image_of_columns(call: Call) -> Value:
    """Add up columns where the blocks that they are lie in the image.

    That is to spread an image of blocks by filters of a single one, one for each place in a block.
    """
    columns, image, block = call.value(0), call.whole(1, "image_shape"), call.whole(2, "blocks")
    dims = len(image)
    if dims not in (1, 2, 3):
        call.refuse(f"images must have 1 to 3 dimensions, got {image}")
    strides, dilations = call.ints("strides") or (1,) * dims, call.ints("dilations") or (1,) * dims
    pads = call.ints("pads") or (0,) * (2 * dims)
    spare = [
        n + a + b - (k - 1) * d - 1
        for n, a, b, k, d in zip(image, pads[:dims], pads[dims:], block, dilations, strict=True)
    ]
    counts = [n // s + 1 for n, s in zip(spare, strides, strict=True)]
    size, (batch, rows, number) = math.prod(block), columns.shape
    if min(spare) < 0 or math.prod(counts) != number or rows % size:
        call.refuse(
            f"expected columns of {size} numbers for each channel, for {counts} blocks, got "
            f"{columns.type}"
        )
    channels = rows // size
    of_some_size(call, [rows, size])
    places = np.eye(size, dtype=columns.dtype).reshape(size, 1, *block)
    filters = call.as_value(np.tile(places, (channels, *[1] * (dims + 1))))
    more = tuple([n % s for n, s in zip(spare, strides, strict=True)])
    sides = tuple(zip(pads[:dims], pads[dims:], strict=True))
    blocks = call.reshape(columns, (batch, rows, *counts))
    return _spread(call, blocks, filters, _Spread(strides, dilations, sides, more), channels)


@dataclass(frozen=True)
class _Spread:
    """How a transposed convolution spreads images."""

    strides: tuple[int, ...]
    dilations: tuple[int, ...]
    sides: Sides
    more: tuple[int, ...]

    @staticmethod
    def of(call: Call, extents: Sequence[int], kernel: Sequence[int]) -> _Spread:
        """Return what the attributes say."""
        dims = len(extents)
        strides = call.ints("strides") or (1,) * dims
        dilations = call.ints("dilations") or (1,) * dims
        more = call.ints("output_padding") or (0,) * dims
        reach = [(k - 1) * d + 1 for k, d in zip(kernel, dilations, strict=True)]
        pads = call.ints("pads") or (0,) * (2 * dims)
        sides: Sides = tuple(zip(pads[:dims], pads[dims:], strict=True))
        auto, shape = call.attribute("auto_pad", "NOTSET"), call.ints("output_shape")
        if auto == "VALID":
            sides = ((0, 0),) * dims
        if shape or auto.startswith("SAME"):
            wanted = shape or tuple([n * s for n, s in zip(extents, strides, strict=True)])
            numbers = zip(extents, strides, reach, more, wanted[-dims:], strict=True)
            total = [(n - 1) * s + r + m - w for n, s, r, m, w in numbers]
            # What is missing is added after, as padding of the result.
            more = tuple([m - min(t, 0) for m, t in zip(more, total, strict=True)])
            total = [max(t, 0) for t in total]
            upper = auto == "SAME_UPPER"
            halves = [(t // 2, t - t // 2) for t in total]
            sides = tuple([(a, b) if upper else (b, a) for a, b in halves])
        return _Spread(strides, dilations, sides, more)

    def with_row(self) -> _Spread:
        """Return the same of images of one row."""
        return _Spread(
            (1, *self.strides), (1, *self.dilations), ((0, 0), *self.sides), (0, *self.more)
        )


def _grouped(call: Call, x: Value, weight: Value, spread: _Spread, groups: int) -> Value:
    """Spread images of two dimensions; channels of a group go to those of the same group."""
    fits = all(m < s for m, s in zip(spread.more, spread.strides, strict=True))
    if set(spread.dilations) != {1} or not fits or min(map(min, spread.sides)) < 0:
        return _dilated(call, x, weight, spread, groups)
    before, after = zip(*spread.sides, strict=True)
    op = ops.Conv2dTranspose(spread.strides, (*before, *after), spread.more)
    if groups == 1:
        return call.apply(op, x, weight)
    data = call.several(ops.Split(groups, 1), x)
    filters = call.several(ops.Split(groups, 0), weight)
    parts = [call.apply(op, a, b) for a, b in zip(data, filters, strict=True)]
    return call.apply(ops.Concatenate(1), *parts)


def _dilated(call: Call, x: Value, weight: Value, spread: _Spread, groups: int) -> Value:
    """Convolve the images with zeros between their elements by the flipped filters."""
    dims = x.type.ndim - 2
    for axis, stride in enumerate(spread.strides, 2):
        x = _with_zeros(call, x, axis, stride)
    flipped = weight
    for axis in range(2, 2 + dims):
        flipped = _flipped(call, flipped, axis)
    # [in, out / groups, ...] -> [out, in / groups, ...]
    into, out, *kernel = weight.shape
    flipped = call.reshape(flipped, (groups, into // groups, out, *kernel))
    flipped = call.transpose(flipped, (0, 2, 1, *range(3, 3 + dims)))
    flipped = call.reshape(flipped, (groups * out, into // groups, *kernel))
    numbers = zip(kernel, spread.dilations, spread.sides, spread.more, strict=True)
    sides = tuple([((k - 1) * d - b, (k - 1) * d - a + m) for k, d, (b, a), m in numbers])
    windows = Windows(tuple(kernel), (1,) * dims, spread.dilations, sides)
    return convolve(call, x, flipped, windows, groups)


def _with_zeros(call: Call, x: Value, axis: int, stride: int) -> Value:
    """Put zeros between the elements of an axis."""
    if stride == 1:
        return x
    apart = call.reshape(x, (*x.shape[: axis + 1], 1, *x.shape[axis + 1 :]))
    pairs = [(0, 0)] * apart.type.ndim
    pairs[axis + 1] = (0, stride - 1)
    spread = call.apply(ops.Pad(tuple(pairs)), apart)
    joined = (*x.shape[:axis], x.shape[axis] * stride, *x.shape[axis + 1 :])
    whole = call.reshape(spread, joined)
    end = (*joined[:axis], (x.shape[axis] - 1) * stride + 1)
    return call.apply(ops.StridedSlice((0,) * (axis + 1), end), whole)


def _flipped(call: Call, x: Value, axis: int) -> Value:
    order = call.as_value(np.arange(x.shape[axis] - 1, -1, -1, dtype="int32"))
    return call.apply(ops.Take(axis), x, order)


def _deformed(call: Call) -> Value:
    """Convolve images that are read at places which the data move."""
    x, weight, offset = call.value(0), call.value(1), call.value(2)
    if x.type.ndim != 4 or weight.type.ndim != 4:
        call.refuse(f"expected images and filters of 4 dimensions, got {x.type}, {weight.type}")
    windows = filter_windows(call, x, weight)
    (down, across), (rows, columns) = windows.strides, windows.dilations
    (top, bottom), (left, right) = windows.sides
    deformed = DeformedConvolution(
        (down, across), (rows, columns), (top, left, bottom, right),
        call.attribute("group", 1), call.attribute("offset_group", 1), call.node.label,
    )  # fmt: skip
    return with_bias(call, deformed.convolve(x, weight, offset, call.optional(4)), 3)


CONVERTERS: dict[str, Converter] = {
    "Conv": _convolution,
    "DeformConv": _deformed,
    "ConvTranspose": _transposed,
    "Col2Im": _image_of_columns,
}
