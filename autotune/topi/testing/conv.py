"""Convolutions in numpy: windows as strided views, then a matrix product."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from autotune.errors import ExpressionError
from autotune.topi.arguments import asks, pair
from autotune.topi.nn.pad import Padding, get_pad_tuple
from autotune.topi.types import Array, OneOrTwo


def _windows(
    what: str, data: Array, kernel: tuple[int, int], stride: OneOrTwo, padding: Padding
) -> Array:
    """Return a view [batch, channel, row, column, kernel row, kernel column] of NCHW data."""
    top, left, bottom, right = get_pad_tuple(padding, kernel, what)
    padded = np.pad(data, ((0, 0), (0, 0), (top, bottom), (left, right)))
    steps = pair()(asks(what), "stride", stride)
    windows = np.lib.stride_tricks.sliding_window_view(padded, kernel, axis=(2, 3))
    return windows[:, :, :: steps[0], :: steps[1]]


def conv2d_nchw_python(
    a_np: Array, w_np: Array, stride: OneOrTwo, padding: Padding, groups: int = 1
) -> Array:
    """Convolve data [batch, in, height, width] by filters [out, in / groups, height, width]."""
    co, own_ci, kh, kw = w_np.shape
    if a_np.shape[1] != own_ci * groups or co % groups:
        raise ExpressionError(
            f"conv2d_nchw_python: data {a_np.shape} and filters {w_np.shape} do not fit in "
            f"{groups} groups"
        )
    windows = _windows("conv2d_nchw_python", a_np, (kh, kw), stride, padding)
    n, _, oh, ow = windows.shape[:4]
    parts = windows.reshape(n, groups, own_ci, oh, ow, kh, kw).transpose(1, 0, 3, 4, 2, 5, 6)
    columns = parts.reshape(groups, n * oh * ow, own_ci * kh * kw)
    filters = w_np.reshape(groups, co // groups, -1).transpose(0, 2, 1)
    out = (columns @ filters).reshape(groups, n, oh, ow, co // groups)
    return np.ascontiguousarray(out.transpose(1, 0, 4, 2, 3).reshape(n, co, oh, ow))


def conv2d_nhwc_python(
    a_np: Array, w_np: Array, stride: OneOrTwo, padding: Padding, groups: int = 1
) -> Array:
    """Convolve data [batch, height, width, in] by filters [height, width, in / groups, out]."""
    data, filters = a_np.transpose(0, 3, 1, 2), w_np.transpose(3, 2, 0, 1)
    out = conv2d_nchw_python(data, filters, stride, padding, groups)
    return np.ascontiguousarray(out.transpose(0, 2, 3, 1))


def conv2d_hwcn_python(a_np: Array, w_np: Array, stride: OneOrTwo, padding: Padding) -> Array:
    """Convolve data [height, width, in, batch] by filters [height, width, in, out]."""
    data, filters = a_np.transpose(3, 2, 0, 1), w_np.transpose(3, 2, 0, 1)
    out = conv2d_nchw_python(data, filters, stride, padding)
    return np.ascontiguousarray(out.transpose(2, 3, 1, 0))


def depthwise_conv2d_python_nchw(
    input_np: Array, filter_np: Array, stride: OneOrTwo, padding: Padding
) -> Array:
    """Convolve each channel of NCHW data by its filters [channel, multiplier, height, width]."""
    channels, multiplier, kh, kw = filter_np.shape
    windows = _windows("depthwise_conv2d_python_nchw", input_np, (kh, kw), stride, padding)
    out = np.einsum("ncyxhw,cmhw->ncmyx", windows, filter_np, optimize=True)
    n, _, _, oh, ow = out.shape
    return np.ascontiguousarray(out.reshape(n, channels * multiplier, oh, ow))


def depthwise_conv2d_python_nhwc(
    input_np: Array, filter_np: Array, stride: OneOrTwo, padding: Padding
) -> Array:
    """Convolve each channel of NHWC data by its filters [height, width, channel, multiplier]."""
    data, filters = input_np.transpose(0, 3, 1, 2), filter_np.transpose(2, 3, 0, 1)
    out = depthwise_conv2d_python_nchw(data, filters, stride, padding)
    return np.ascontiguousarray(out.transpose(0, 2, 3, 1))


def dilate_python(input_np: Array, strides: Sequence[int], dilation_value: float = 0.0) -> Array:
    """Put ``strides - 1`` elements of a value between the elements of each dimension.

    A dilated convolution is a plain one with filters dilated so.
    """
    if len(strides) != input_np.ndim:
        raise ExpressionError(
            f"dilate_python: {input_np.ndim} dimensions, but {len(strides)} strides"
        )
    shape = [(n - 1) * s + 1 for n, s in zip(input_np.shape, strides, strict=True)]
    out = np.full(shape, dilation_value, input_np.dtype)
    out[tuple(slice(None, None, s) for s in strides)] = input_np
    return out
