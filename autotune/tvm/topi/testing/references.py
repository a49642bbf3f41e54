"""References of TVM's `topi.testing` in numpy that `autotune.topi.testing` lacks."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

import numpy as np

from autotune.graph import ops
from autotune.topi.testing import conv2d_nchw_python, dilate_python
from autotune.topi.types import Array

__all__ = [
    "conv1d_ncw_python", "conv1d_transpose_ncw_python", "conv2d_transpose_nchw_python",
    "conv3d_ncdhw_python", "depth_to_space_python", "group_norm_python", "instance_norm_python",
    "l2_normalize_python",
    "layer_norm_python", "lrn_python", "rms_norm_python", "space_to_depth_python",
    "strided_slice_python", "upsampling_python",
]  # fmt: skip


def conv1d_ncw_python(
    a_np: Array,
    w_np: Array,
    stride: int | Sequence[int],
    padding: str | int | Sequence[int],
    dilation: int | Sequence[int] = 1,
    groups: int = 1,
) -> Array:
    """Convolve data [batch, in, width] by filters [out, in / groups, width]."""
    (step, hole) = (each[0] if isinstance(each, Sequence) else each for each in (stride, dilation))
    if not isinstance(padding, str):
        given = (padding,) if isinstance(padding, int) else tuple(padding)
        padding = (0, given[0], 0, given[-1])
    wide = dilate_python(w_np, (1, 1, hole))
    found = conv2d_nchw_python(a_np[:, :, None], wide[:, :, None], (1, step), padding, groups)
    return np.asarray(found[:, :, 0])


def conv1d_transpose_ncw_python(
    a_np: Array,
    w_np: Array,
    stride: int | Sequence[int],
    padding: int | Sequence[int],
    output_padding: int | Sequence[int] = 0,
) -> Array:
    """Spread data [batch, in, width] by filters [in, out, width]."""
    step, more = (
        each[0] if isinstance(each, Sequence) else each for each in (stride, output_padding)
    )
    sides = (padding,) if isinstance(padding, int) else tuple(padding)
    op = ops.Conv2dTranspose((1, step), (0, sides[0], 0, sides[-1]), (0, more))
    return op.reference(a_np[:, :, None], w_np[:, :, None])[:, :, 0]


def conv2d_transpose_nchw_python(
    a_np: Array,
    w_np: Array,
    stride: int | Sequence[int],
    padding: int | Sequence[int],
    output_padding: int | Sequence[int] = 0,
) -> Array:
    """Spread data [batch, in, height, width] by filters [in, out, height, width]."""
    steps, sides, more = (
        (each,) if isinstance(each, int) else tuple(each)
        for each in (stride, padding, output_padding)
    )
    return ops.Conv2dTranspose(steps, sides, more).reference(a_np, w_np)


def conv3d_ncdhw_python(
    a_np: Array,
    w_np: Array,
    stride: int | Sequence[int],
    padding: int | Sequence[int],
    groups: int = 1,
) -> Array:
    """Convolve data [batch, in, depth, height, width] by filters [out, in / groups, ...]."""
    steps, sides = (
        (each,) if isinstance(each, int) else tuple(each) for each in (stride, padding)
    )
    return ops.Conv3d(steps, sides, (1,), groups).reference(a_np, w_np)


def lrn_python(a_np: Array, size: int, axis: int, bias: float, alpha: float, beta: float) -> Array:
    """Divide by a power of the mean of the squares of neighbours along an axis."""
    along = np.moveaxis(a_np, axis, -1)
    sides = [(0, 0)] * (a_np.ndim - 1) + [(size // 2, size // 2)]
    windows = np.lib.stride_tricks.sliding_window_view(np.pad(along**2, sides), size, axis=-1)
    mean = np.moveaxis(windows.sum(-1), -1, axis) / size
    return np.asarray(a_np / (bias + alpha * mean) ** beta)


def l2_normalize_python(a_np: Array, eps: float, axis: int | Sequence[int] | None = None) -> Array:
    """Divide by the root of the sum of squares over axes."""
    over = tuple(axis) if isinstance(axis, Sequence) else axis
    return np.asarray(a_np / np.sqrt(np.maximum((a_np**2).sum(over, keepdims=True), eps)))


def layer_norm_python(
    data: Array,
    gamma: Array,
    beta: Array | None,
    axis: int | Sequence[int],
    epsilon: float = 1e-5,
) -> Array:
    """Normalise over axes, then scale and shift."""
    over = _axes(axis, data.ndim)
    found = _normal(data, over, epsilon) * _beside(gamma, over, data.ndim)
    return found if beta is None else found + _beside(beta, over, data.ndim)


def rms_norm_python(
    data: Array, weight: Array, axis: int | Sequence[int], epsilon: float = 1e-5
) -> Array:
    """Divide by the root of the mean of squares over axes, then scale."""
    over = _axes(axis, data.ndim)
    mean = (data**2).mean(over, keepdims=True)
    return np.asarray(data / np.sqrt(mean + epsilon) * _beside(weight, over, data.ndim))


def group_norm_python(
    data: Array,
    gamma: Array,
    beta: Array,
    num_groups: int,
    channel_axis: int,
    axes: Sequence[int],
    epsilon: float = 1e-5,
) -> Array:
    """Normalise groups of channels, then scale and shift channels."""
    shape, at = data.shape, channel_axis % data.ndim
    apart = data.reshape(*shape[:at], num_groups, shape[at] // num_groups, *shape[at + 1 :])
    over = (at + 1, *(a + (a > at) for a in _axes(axes, data.ndim) if a != at))
    found = _normal(apart, over, epsilon).reshape(shape)
    return found * _beside(gamma, (at,), data.ndim) + _beside(beta, (at,), data.ndim)


def instance_norm_python(
    data: Array,
    gamma: Array,
    beta: Array,
    channel_axis: int,
    axis: Sequence[int],
    epsilon: float = 1e-5,
) -> Array:
    """Normalise each channel of each image, then scale and shift it."""
    groups = data.shape[channel_axis]
    return group_norm_python(data, gamma, beta, groups, channel_axis, axis, epsilon)


def depth_to_space_python(data: Array, block_size: int, mode: str = "DCR") -> Array:
    """Move channels of each pixel of NCHW images to a square block of pixels."""
    n, c, h, w = data.shape
    found = np.empty((n, c // block_size**2, h * block_size, w * block_size), data.dtype)
    for y in range(block_size):
        for x in range(block_size):
            pixel = y * block_size + x
            channels = (
                slice(pixel * found.shape[1], (pixel + 1) * found.shape[1])
                if mode == "DCR"
                else slice(pixel, None, block_size**2)
            )
            found[:, :, y::block_size, x::block_size] = data[:, channels]
    return found


def space_to_depth_python(data: Array, block_size: int) -> Array:
    """Move the pixels of each square block of NCHW images to channels."""
    blocks = [
        data[:, :, y::block_size, x::block_size]
        for y in range(block_size)
        for x in range(block_size)
    ]
    return np.concatenate(blocks, axis=1)


def strided_slice_python(
    data: Array,
    begin: Sequence[int],
    end: Sequence[int],
    strides: Sequence[int] | None,
    slice_mode: str = "end",
    axes: Sequence[int] | None = None,
) -> Array:
    """Return what lies between begin and end, or a number of elements (``"size"``)."""
    steps = [*(strides or []), *[1] * (len(begin) - len(strides or []))]
    cut = [slice(None)] * data.ndim
    for axis, first, last, step in zip(axes or range(len(begin)), begin, end, steps, strict=False):
        if slice_mode == "size":
            cut[axis] = slice(first, None if last < 0 else first + last)
        else:
            cut[axis] = slice(first, last, step)
    return data[tuple(cut)]


def upsampling_python(data: Array, scale: Sequence[int], layout: str = "NCHW") -> Array:
    """Repeat each pixel by whole numbers."""
    h, w = layout.index("H"), layout.index("W")
    return data.repeat(int(scale[0]), axis=h).repeat(int(scale[1]), axis=w)


def _normal(data: Array, over: tuple[int, ...], epsilon: float) -> Array:
    deviation = np.sqrt(data.var(over, keepdims=True) + epsilon)
    return np.asarray((data - data.mean(over, keepdims=True)) / deviation)


def _axes(axis: int | Sequence[int], ndim: int) -> tuple[int, ...]:
    return tuple(a % ndim for a in (axis if isinstance(axis, Sequence) else (axis,)))


def _beside(values: Array, axes: Sequence[int], ndim: int) -> Array:
    """Return numbers of some axes in a shape that is broadcast to all."""
    shape = [1] * ndim
    for axis, extent in zip(axes, values.shape, strict=True):
        shape[axis] = extent
    assert prod(shape) == values.size
    return values.reshape(shape)
