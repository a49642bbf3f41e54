"""Convolutions over one to three axes, plain and transposed."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from autotune.graph import Value, ops
from autotune.importers.pytorch.call import Call, converts

_PLAIN = {2: (ops.Conv2d, "NCHW", "OIHW"), 3: (ops.Conv3d, "NCDHW", "OIDHW")}
Sizes = Sequence[int] | int


def _each(sizes: Sizes, dims: int) -> tuple[int, ...]:
    """Return a number for each axis."""
    given = (sizes,) if isinstance(sizes, int) else tuple(sizes)
    return given * dims if len(given) == 1 else given


@converts("conv1d", "conv2d", "conv3d")
def convolution(
    call: Call, x: Value, weight: Value, bias: Value | None = None, stride: Sizes = 1,
    padding: Sizes | str = 0, dilation: Sizes = 1, groups: int = 1,
) -> Value:  # fmt: skip
    """Convolve; padding may be said in words."""
    dims = weight.type.ndim - 2
    holes = _each(dilation, dims)
    if isinstance(padding, str):
        reach = [(n - 1) * h for n, h in zip(weight.shape[2:], holes, strict=True)]
        same = padding == "same"
        sides = [(n // 2, n - n // 2) if same else (0, 0) for n in reach]
    else:
        sides = [(n, n) for n in _each(padding, dims)]
    return _convolved(call, x, weight, bias, _each(stride, dims), sides, holes, groups)


@converts("convolution", "_convolution")
def general_convolution(
    call: Call, x: Value, weight: Value, bias: Value | None, stride: Sizes, padding: Sizes,
    dilation: Sizes, transposed: bool, output_padding: Sizes, groups: int, *_: object,
) -> Value:  # fmt: skip
    """Convolve, or spread as a transposed convolution does."""
    if transposed:
        return transposed_convolution(
            call, x, weight, bias, stride, padding, output_padding, groups, dilation
        )
    return convolution(call, x, weight, bias, stride, padding, dilation, groups)


def _convolved(
    call: Call, x: Value, weight: Value, bias: Value | None, stride: Sequence[int],
    sides: Sequence[tuple[int, int]], holes: Sequence[int], groups: int,
) -> Value:  # fmt: skip
    """Convolve; sequences as images of one row, and images without a batch as a batch of one."""
    dims = weight.type.ndim - 2
    shape = call.type.shape
    if x.type.ndim == dims + 1:
        x = call.reshape(x, (1, *x.shape))
    if dims == 1:
        x = call.reshape(x, (*x.shape[:2], 1, x.shape[2]))
        weight = call.reshape(weight, (*weight.shape[:2], 1, weight.shape[2]))
        stride, holes, sides = (1, *stride), (1, *holes), ((0, 0), *sides)
    padding = tuple(before for before, _ in sides) + tuple(after for _, after in sides)
    kind, data_layout, kernel_layout = _PLAIN[max(dims, 2)]
    rest = tuple(stride), padding, tuple(holes)
    if dims == 3 and groups > 1:
        parts = [
            call.apply(kind(*rest, 1, data_layout, kernel_layout), part, filters)
            for part, filters in _groups(call, x, weight, groups)
        ]
        result = call.concatenate(parts, 1)
    else:
        result = call.apply(kind(*rest, groups, data_layout, kernel_layout), x, weight)
    if bias is not None:
        result = call.apply(ops.BiasAdd(1), result, bias)
    return call.reshape(result, shape)


def _groups(call: Call, x: Value, weight: Value, groups: int) -> list[tuple[Value, Value]]:
    """Return the channels of data and the filters for them, cut into groups."""
    return [
        (
            call.slice(x, 1, *_piece(x.shape[1], number, groups)),
            call.slice(weight, 0, *_piece(weight.shape[0], number, groups)),
        )
        for number in range(groups)
    ]


def _piece(extent: int, number: int, pieces: int) -> tuple[int, int]:
    size = extent // pieces
    return number * size, (number + 1) * size


@converts("conv_transpose1d", "conv_transpose2d", "conv_transpose3d")
def transposed_convolution(
    call: Call, x: Value, weight: Value, bias: Value | None = None, stride: Sizes = 1,
    padding: Sizes = 0, output_padding: Sizes = 0, groups: int = 1, dilation: Sizes = 1,
) -> Value:  # fmt: skip
    """Spread images by filters, group by group."""
    dims = weight.type.ndim - 2
    if x.type.ndim == dims + 1:
        x = call.reshape(x, (1, *x.shape))
    steps, sides = _each(stride, dims), _each(padding, dims)
    more, holes = _each(output_padding, dims), _each(dilation, dims)
    make = _image_spread if dims < 3 and set(holes) == {1} else _spread
    parts = [
        make(call, part, filters, steps, sides, more, holes)
        for part, filters in _groups(call, x, weight, groups)
    ]
    result = call.concatenate(parts, 1)
    if bias is not None:
        result = call.apply(ops.BiasAdd(1), result, bias)
    return call.reshape(result, call.type.shape)


def _image_spread(
    call: Call, x: Value, weight: Value, steps: Sequence[int], sides: Sequence[int],
    more: Sequence[int], holes: Sequence[int],
) -> Value:  # fmt: skip
    """Spread images, or sequences as images of one row."""
    if len(steps) == 1:
        x = call.reshape(x, (*x.shape[:2], 1, x.shape[2]))
        weight = call.reshape(weight, (*weight.shape[:2], 1, weight.shape[2]))
        steps, sides, more = (1, *steps), (0, *sides), (0, *more)
    if all(extra < step for extra, step in zip(more, steps, strict=True)):
        return call.apply(ops.Conv2dTranspose(tuple(steps), tuple(sides), tuple(more)), x, weight)
    return _spread(call, x, weight, steps, sides, more, (1, 1))


def _spread(
    call: Call, x: Value, weight: Value, steps: Sequence[int], sides: Sequence[int],
    more: Sequence[int], holes: Sequence[int],
) -> Value:  # fmt: skip
    """Put zeros between the elements, and convolve by the flipped filters."""
    dims = len(steps)
    extents = x.shape[2:]
    apart = [each for n in extents for each in (n, 1)]
    wide = call.reshape(x, (*x.shape[:2], *apart))
    gaps = [pair for step in steps for pair in ((0, 0), (0, step - 1))]
    if any(step > 1 for step in steps):
        wide = call.apply(ops.Pad(((0, 0), (0, 0), *gaps)), wide)
    spread = call.reshape(
        wide, (*x.shape[:2], *(n * s for n, s in zip(extents, steps, strict=True)))
    )
    for axis, (n, step) in enumerate(zip(extents, steps, strict=True), 2):
        spread = call.slice(spread, axis, 0, (n - 1) * step + 1)
    flipped = weight
    for axis in range(2, 2 + dims):
        flipped = call.take(flipped, axis, np.arange(weight.shape[axis])[::-1])
    flipped = call.transpose(flipped, (1, 0, *range(2, 2 + dims)))
    reach = [h * (n - 1) for n, h in zip(weight.shape[2:], holes, strict=True)]
    around = [
        (r - side, r - side + extra) for r, side, extra in zip(reach, sides, more, strict=True)
    ]
    for axis, (before, after) in enumerate(around, 2):
        extent = spread.shape[axis]
        spread = call.slice(spread, axis, max(-before, 0), extent - max(-after, 0))
    padding = [(max(b, 0), max(a, 0)) for b, a in around]
    shape = (x.shape[0], flipped.shape[0], *_extents(spread, padding, flipped, holes))
    inner = Call(call.name, (type(call.type)(shape, x.dtype),), call.origin)
    return _convolved(inner, spread, flipped, None, (1,) * dims, padding, holes, 1)


def _extents(
    x: Value, padding: Sequence[tuple[int, int]], weight: Value, holes: Sequence[int]
) -> list[int]:
    """Return the extents that a convolution without strides leaves."""
    numbers = zip(x.shape[2:], padding, weight.shape[2:], holes, strict=True)
    return [n + before + after - (k - 1) * h for n, (before, after), k, h in numbers]
