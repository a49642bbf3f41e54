"""Depthwise convolutions: every channel by filters of its own."""

from __future__ import annotations

from autotune import te
from autotune.ir import Expr
from autotune.te.tensor import Tensor
from autotune.topi.arguments import asks, dtype_or_none
from autotune.topi.nn.pad import Padding
from autotune.topi.nn.window import Window, arrange, check_channels, extents
from autotune.topi.types import OneOrTwo


def depthwise_conv2d_nchw(
    data: Tensor,
    kernel: Tensor,
    stride: OneOrTwo,
    padding: Padding,
    dilation: OneOrTwo = 1,
    out_dtype: str | None = None,
) -> Tensor:
    """Convolve data [batch, channel, height, width] by [channel, multiplier, height, width].

    Output channel ``c`` reads input channel ``c // multiplier``. The other arguments are those of
    `conv2d_nchw`.
    """
    return _convolve(
        "depthwise_conv2d_nchw", "NCHW", data, "CMHW", kernel, stride, padding, dilation,
        out_dtype,
    )  # fmt: skip


def depthwise_conv2d_nhwc(
    data: Tensor,
    kernel: Tensor,
    stride: OneOrTwo,
    padding: Padding,
    dilation: OneOrTwo = 1,
    out_dtype: str | None = None,
) -> Tensor:
    """Convolve data [batch, height, width, channel] by [height, width, channel, multiplier].

    As `depthwise_conv2d_nchw` otherwise.
    """
    return _convolve(
        "depthwise_conv2d_nhwc", "NHWC", data, "HWCM", kernel, stride, padding, dilation,
        out_dtype,
    )  # fmt: skip


def _convolve(
    what: str,
    layout: str,
    data: Tensor,
    kernel_layout: str,
    kernel: Tensor,
    stride: OneOrTwo,
    padding: Padding,
    dilation: OneOrTwo,
    out_dtype: str | None,
) -> Tensor:
    """Convolve in any layout; of the filters, C is the input channel and M the multiplier."""
    images = extents(what, "data", data, layout)
    filters = extents(what, "kernel", kernel, kernel_layout)
    check_channels(what, images["C"], filters["C"])
    window = Window.of(what, filters, stride, padding, dilation)
    multiplier = filters["M"]
    out = {**images, **window.output(what, images), "C": images["C"] * multiplier}
    padded = window.pad(data, layout, "PaddedInput")
    element = window.axes("di", "dj")
    dtype = dtype_or_none(asks(what), "out_dtype", out_dtype) or data.dtype

    def body(*index: Expr) -> Expr:
        at = dict(zip(layout, index, strict=True))
        own = {"C": te.indexdiv(at["C"], multiplier), "M": te.indexmod(at["C"], multiplier)}
        image = padded(*arrange(layout, {**at, **window.places(at, element), **own}))
        weight = kernel(*arrange(kernel_layout, {**element, **own}))
        over = [element["H"], element["W"]]
        return te.sum(image.astype(dtype) * weight.astype(dtype), axis=over)

    names = arrange(layout, {"N": "b", "C": "c", "H": "i", "W": "j"})
    result: Tensor = te.compute(
        arrange(layout, out), body, "DepthwiseConv2d", what, varargs_names=names
    )
    return result
