"""Two-dimensional convolutions in the layouts NCHW, NHWC and HWCN."""

from __future__ import annotations

from typing import Any

from autotune import te
from autotune.errors import ExpressionError
from autotune.te.tensor import Tensor
from autotune.topi.nn.conv_shape import Window, check_channels, divide_channels
from autotune.topi.nn.pad import Padding, pad
from autotune.topi.utils import static_shape


def conv2d(
    data: Tensor,
    kernel: Tensor,
    strides: Any,
    padding: Padding,
    dilation: Any = 1,
    data_layout: str = "NCHW",
    kernel_layout: str = "",
    out_dtype: str | None = None,
    groups: int = 1,
) -> Tensor:
    """Convolve in a layout given by name; see `conv2d_nchw`, `conv2d_nhwc` and `conv2d_hwcn`.

    ``kernel_layout`` may name the one layout that goes with the data's: OIHW, HWIO, HWIO.
    """
    expected = {"NCHW": "OIHW", "NHWC": "HWIO", "HWCN": "HWIO"}
    if data_layout not in expected or kernel_layout not in ("", expected[data_layout]):
        raise ExpressionError(
            f"conv2d: layout must be NCHW with OIHW, NHWC with HWIO or HWCN with HWIO, got "
            f"{data_layout} with {kernel_layout or 'its own'}"
        )
    if groups != 1:
        if data_layout != "NCHW":
            raise ExpressionError(f"conv2d: groups need layout NCHW, got {data_layout}")
        return group_conv2d_nchw(data, kernel, strides, padding, dilation, groups, out_dtype)
    operator = {"NCHW": conv2d_nchw, "NHWC": conv2d_nhwc, "HWCN": conv2d_hwcn}[data_layout]
    return operator(data, kernel, strides, padding, dilation, out_dtype)


def conv2d_nchw(
    data: Tensor,
    kernel: Tensor,
    stride: Any,
    padding: Padding,
    dilation: Any = 1,
    out_dtype: str | None = None,
) -> Tensor:
    """Convolve data [batch, in_channel, height, width] by a filter [out, in, height, width].

    Args:
        data: the images.
        kernel: the filters.
        stride: an int or (vertical, horizontal).
        padding: see `get_pad_tuple`.
        dilation: an int or (vertical, horizontal).
        out_dtype: dtype of products and sums; by default that of the data.
    """
    batch, ci, height, width = static_shape("conv2d_nchw", data, 4)
    co, own_ci, kh, kw = static_shape("conv2d_nchw", kernel, 4)
    check_channels("conv2d_nchw", ci, own_ci)
    window = Window.of("conv2d_nchw", (kh, kw), stride, padding, dilation)
    oh, ow = window.output("conv2d_nchw", height, width)
    top, left, bottom, right = window.padding
    temp = pad(data, [0, 0, top, left], [0, 0, bottom, right], name="pad_temp")
    dtype = out_dtype or data.dtype
    rc = te.reduce_axis((0, ci), name="rc")
    ry = te.reduce_axis((0, kh), name="ry")
    rx = te.reduce_axis((0, kw), name="rx")
    result: Tensor = te.compute(
        (batch, co, oh, ow),
        lambda nn, ff, yy, xx: te.sum(
            temp[nn, rc, window.rows(yy, ry), window.columns(xx, rx)].astype(dtype)
            * kernel[ff, rc, ry, rx].astype(dtype),
            axis=[rc, ry, rx],
        ),
        tag="conv2d_nchw",
    )
    return result


def conv2d_nhwc(
    data: Tensor,
    kernel: Tensor,
    stride: Any,
    padding: Padding,
    dilation: Any = 1,
    out_dtype: str | None = None,
) -> Tensor:
    """Convolve data [batch, height, width, in_channel] by a filter [height, width, in, out].

    The arguments are those of `conv2d_nchw`.
    """
    batch, height, width, ci = static_shape("conv2d_nhwc", data, 4)
    kh, kw, own_ci, co = static_shape("conv2d_nhwc", kernel, 4)
    check_channels("conv2d_nhwc", ci, own_ci)
    window = Window.of("conv2d_nhwc", (kh, kw), stride, padding, dilation)
    oh, ow = window.output("conv2d_nhwc", height, width)
    top, left, bottom, right = window.padding
    temp = pad(data, [0, top, left, 0], [0, bottom, right, 0], name="pad_temp")
    dtype = out_dtype or data.dtype
    rc = te.reduce_axis((0, ci), name="rc")
    ry = te.reduce_axis((0, kh), name="ry")
    rx = te.reduce_axis((0, kw), name="rx")
    result: Tensor = te.compute(
        (batch, oh, ow, co),
        lambda nn, yy, xx, ff: te.sum(
            temp[nn, window.rows(yy, ry), window.columns(xx, rx), rc].astype(dtype)
            * kernel[ry, rx, rc, ff].astype(dtype),
            axis=[ry, rx, rc],
        ),
        name="conv2d_nhwc",
        tag="conv2d_nhwc",
    )
    return result


def conv2d_hwcn(
    data: Tensor,
    kernel: Tensor,
    stride: Any,
    padding: Padding,
    dilation: Any = 1,
    out_dtype: str | None = None,
) -> Tensor:
    """Convolve data [height, width, in_channel, batch] by a filter [height, width, in, out].

    The arguments are those of `conv2d_nchw`.
    """
    height, width, ci, batch = static_shape("conv2d_hwcn", data, 4)
    kh, kw, own_ci, co = static_shape("conv2d_hwcn", kernel, 4)
    check_channels("conv2d_hwcn", ci, own_ci)
    window = Window.of("conv2d_hwcn", (kh, kw), stride, padding, dilation)
    oh, ow = window.output("conv2d_hwcn", height, width)
    top, left, bottom, right = window.padding
    temp = pad(data, [top, left, 0, 0], [bottom, right, 0, 0], name="pad_temp")
    dtype = out_dtype or data.dtype
    rc = te.reduce_axis((0, ci), name="rc")
    ry = te.reduce_axis((0, kh), name="ry")
    rx = te.reduce_axis((0, kw), name="rx")
    result: Tensor = te.compute(
        (oh, ow, co, batch),
        lambda yy, xx, ff, nn: te.sum(
            temp[window.rows(yy, ry), window.columns(xx, rx), rc, nn].astype(dtype)
            * kernel[ry, rx, rc, ff].astype(dtype),
            axis=[ry, rx, rc],
        ),
        name="conv2d_hwcn",
        tag="conv2d_hwcn",
    )
    return result


def group_conv2d_nchw(
    data: Tensor,
    kernel: Tensor,
    stride: Any,
    padding: Padding,
    dilation: Any,
    groups: int,
    out_dtype: str | None = None,
) -> Tensor:
    """Convolve groups of channels, each by its own filters [out, in / groups, height, width].

    The other arguments are those of `conv2d_nchw`.
    """
    batch, ci, height, width = static_shape("group_conv2d_nchw", data, 4)
    co, own_ci, kh, kw = static_shape("group_conv2d_nchw", kernel, 4)
    group_ci = divide_channels("group_conv2d_nchw", ci, groups)
    group_co = divide_channels("group_conv2d_nchw", co, groups)
    check_channels("group_conv2d_nchw", group_ci, own_ci)
    window = Window.of("group_conv2d_nchw", (kh, kw), stride, padding, dilation)
    oh, ow = window.output("group_conv2d_nchw", height, width)
    top, left, bottom, right = window.padding
    temp = pad(data, [0, 0, top, left], [0, 0, bottom, right], name="pad_temp")
    dtype = out_dtype or data.dtype
    rc = te.reduce_axis((0, group_ci), name="rc")
    ry = te.reduce_axis((0, kh), name="ry")
    rx = te.reduce_axis((0, kw), name="rx")
    result: Tensor = te.compute(
        (batch, co, oh, ow),
        lambda nn, ff, yy, xx: te.sum(
            temp[
                nn,
                te.indexdiv(ff, group_co) * group_ci + rc,
                window.rows(yy, ry),
                window.columns(xx, rx),
            ].astype(dtype)
            * kernel[ff, rc, ry, rx].astype(dtype),
            axis=[rc, ry, rx],
        ),
        tag="group_conv2d_nchw",
    )
    return result


__all__ = [
    "conv2d",
    "conv2d_hwcn",
    "conv2d_nchw",
    "conv2d_nhwc",
    "group_conv2d_nchw",
]
