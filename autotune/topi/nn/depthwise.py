"""Depthwise convolutions: every channel by filters of its own."""

from __future__ import annotations

from typing import Any

from autotune import te
from autotune.te.tensor import Tensor
from autotune.topi.nn.conv_shape import Window, check_channels
from autotune.topi.nn.pad import Padding, pad
from autotune.topi.utils import static_shape


def depthwise_conv2d_nchw(
    data: Tensor,
    kernel: Tensor,
    stride: Any,
    padding: Padding,
    dilation: Any = 1,
    out_dtype: str | None = None,
) -> Tensor:
    """Convolve data [batch, channel, height, width] by [channel, multiplier, height, width].

    Output channel ``c`` reads input channel ``c // multiplier``. The other arguments are those of
    `conv2d_nchw`.
    """
    batch, ci, height, width = static_shape("depthwise_conv2d_nchw", data, 4)
    own_ci, multiplier, kh, kw = static_shape("depthwise_conv2d_nchw", kernel, 4)
    check_channels("depthwise_conv2d_nchw", ci, own_ci)
    window = Window.of("depthwise_conv2d_nchw", (kh, kw), stride, padding, dilation)
    oh, ow = window.output("depthwise_conv2d_nchw", height, width)
    top, left, bottom, right = window.padding
    padded = pad(data, [0, 0, top, left], [0, 0, bottom, right], name="PaddedInput")
    dtype = out_dtype or data.dtype
    di = te.reduce_axis((0, kh), name="di")
    dj = te.reduce_axis((0, kw), name="dj")
    result: Tensor = te.compute(
        (batch, ci * multiplier, oh, ow),
        lambda b, c, i, j: te.sum(
            padded[
                b, te.indexdiv(c, multiplier), window.rows(i, di), window.columns(j, dj)
            ].astype(dtype)
            * kernel[te.indexdiv(c, multiplier), te.indexmod(c, multiplier), di, dj].astype(dtype),
            axis=[di, dj],
        ),
        name="DepthwiseConv2d",
        tag="depthwise_conv2d_nchw",
    )
    return result


def depthwise_conv2d_nhwc(
    data: Tensor,
    kernel: Tensor,
    stride: Any,
    padding: Padding,
    dilation: Any = 1,
    out_dtype: str | None = None,
) -> Tensor:
    """Convolve data [batch, height, width, channel] by [height, width, channel, multiplier].

    As `depthwise_conv2d_nchw` otherwise.
    """
    batch, height, width, ci = static_shape("depthwise_conv2d_nhwc", data, 4)
    kh, kw, own_ci, multiplier = static_shape("depthwise_conv2d_nhwc", kernel, 4)
    check_channels("depthwise_conv2d_nhwc", ci, own_ci)
    window = Window.of("depthwise_conv2d_nhwc", (kh, kw), stride, padding, dilation)
    oh, ow = window.output("depthwise_conv2d_nhwc", height, width)
    top, left, bottom, right = window.padding
    padded = pad(data, [0, top, left, 0], [0, bottom, right, 0], name="PaddedInput")
    dtype = out_dtype or data.dtype
    di = te.reduce_axis((0, kh), name="di")
    dj = te.reduce_axis((0, kw), name="dj")
    result: Tensor = te.compute(
        (batch, oh, ow, ci * multiplier),
        lambda b, i, j, c: te.sum(
            padded[
                b, window.rows(i, di), window.columns(j, dj), te.indexdiv(c, multiplier)
            ].astype(dtype)
            * kernel[di, dj, te.indexdiv(c, multiplier), te.indexmod(c, multiplier)].astype(dtype),
            axis=[di, dj],
        ),
        name="DepthwiseConv2d",
        tag="depthwise_conv2d_nhwc",
    )
    return result
