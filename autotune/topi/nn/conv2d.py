"""Two-dimensional convolutions in the layouts NCHW, NHWC and HWCN, whole or in groups."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from autotune.te.tensor import Tensor
from autotune.topi.arguments import asks, flag, integer, pair, takes
from autotune.topi.nn.convolve import Form, convolve
from autotune.topi.nn.pad import Padding
from autotune.topi.nn.window import Window
from autotune.topi.types import OneOrTwo

# The layout of the filters that goes with each layout of the data.
FILTERS = {"NCHW": "OIHW", "NHWC": "HWIO", "HWCN": "HWIO"}
_AXES = {"N": "nn", "C": "ff", "H": "yy", "W": "xx"}
_SUMS = {"I": "rc", "H": "ry", "W": "rx"}


@takes(strides=pair(), groups=integer(1), tf32=flag)
def conv2d(
    data: Tensor,
    kernel: Tensor,
    strides: OneOrTwo,
    padding: Padding,
    dilation: OneOrTwo = 1,
    data_layout: str = "NCHW",
    kernel_layout: str = "",
    out_dtype: str | None = None,
    groups: int = 1,
    tf32: bool = False,
) -> Tensor:
    """Convolve in a layout given by name; see `conv2d_nchw`, `conv2d_nhwc` and `conv2d_hwcn`.

    ``kernel_layout`` may name the one layout that goes with the data's: OIHW, HWIO, HWIO. With
    ``tf32``, in one group, float32 is multiplied as `autotune.te.tf32` has it.
    """
    check = asks("conv2d")
    check.one_of("data_layout", data_layout, FILTERS)
    check.one_of("kernel_layout", kernel_layout, ("", FILTERS[data_layout]))
    if groups != 1:
        if data_layout == "HWCN":
            check.refuse("groups", f"1 where the data_layout is {data_layout!r}", groups)
        if tf32:
            check.refuse("groups", "1 with tf32", groups)
        grouped = group_conv2d_nchw if data_layout == "NCHW" else group_conv2d_nhwc
        return grouped(data, kernel, strides, padding, dilation, groups, out_dtype)
    operators = {"NCHW": conv2d_nchw, "NHWC": conv2d_nhwc, "HWCN": conv2d_hwcn}
    return operators[data_layout](data, kernel, strides, padding, dilation, out_dtype, tf32)


def conv2d_nchw(
    data: Tensor,
    kernel: Tensor,
    stride: OneOrTwo,
    padding: Padding,
    dilation: OneOrTwo = 1,
    out_dtype: str | None = None,
    tf32: bool = False,
) -> Tensor:
    """Convolve data [batch, in_channel, height, width] by a filter [out, in, height, width].

    Args:
        data: the images.
        kernel: the filters.
        stride: an int or (vertical, horizontal).
        padding: see `get_pad_tuple`.
        dilation: an int or (vertical, horizontal).
        out_dtype: dtype of products and sums; by default that of the data.
        tf32: multiply float32 as `autotune.te.tf32` has it, which may run on tensor cores.
    """
    form = _form("conv2d_nchw", "NCHW", name="compute")
    window = _window(form, stride, padding, dilation)
    return convolve(form, data, kernel, window, out_dtype, tf32=tf32)


def conv2d_nhwc(
    data: Tensor,
    kernel: Tensor,
    stride: OneOrTwo,
    padding: Padding,
    dilation: OneOrTwo = 1,
    out_dtype: str | None = None,
    tf32: bool = False,
) -> Tensor:
    """Convolve data [batch, height, width, in_channel] by a filter [height, width, in, out].

    The arguments are those of `conv2d_nchw`.
    """
    form = _form("conv2d_nhwc", "NHWC", name="conv2d_nhwc")
    window = _window(form, stride, padding, dilation)
    return convolve(form, data, kernel, window, out_dtype, tf32=tf32)


def conv2d_hwcn(
    data: Tensor,
    kernel: Tensor,
    stride: OneOrTwo,
    padding: Padding,
    dilation: OneOrTwo = 1,
    out_dtype: str | None = None,
    tf32: bool = False,
) -> Tensor:
    """Convolve data [height, width, in_channel, batch] by a filter [height, width, in, out].

    The arguments are those of `conv2d_nchw`.
    """
    form = _form("conv2d_hwcn", "HWCN", name="conv2d_hwcn")
    window = _window(form, stride, padding, dilation)
    return convolve(form, data, kernel, window, out_dtype, tf32=tf32)


def group_conv2d_nchw(
    data: Tensor,
    kernel: Tensor,
    stride: OneOrTwo,
    padding: Padding,
    dilation: OneOrTwo,
    groups: int,
    out_dtype: str | None = None,
) -> Tensor:
    """Convolve groups of channels, each by its own filters [out, in / groups, height, width].

    The other arguments are those of `conv2d_nchw`.
    """
    form = _form("group_conv2d_nchw", "NCHW", name="compute")
    window = _window(form, stride, padding, dilation)
    return convolve(form, data, kernel, window, out_dtype, groups)


def group_conv2d_nhwc(
    data: Tensor,
    kernel: Tensor,
    stride: OneOrTwo,
    padding: Padding,
    dilation: OneOrTwo,
    groups: int,
    out_dtype: str | None = None,
) -> Tensor:
    """Convolve groups of channels, each by its own filters [height, width, in / groups, out].

    The other arguments are those of `conv2d_nhwc`.
    """
    form = _form("group_conv2d_nhwc", "NHWC", name="compute")
    window = _window(form, stride, padding, dilation)
    return convolve(form, data, kernel, window, out_dtype, groups)


def _form(operator: str, layout: str, name: str) -> Form:
    filters = FILTERS[layout]
    sums = {each: _SUMS[each] for each in filters if each in _SUMS}
    return Form(operator, layout, filters, name, operator, _AXES, sums)


def _window(
    form: Form, stride: OneOrTwo, padding: Padding, dilation: OneOrTwo
) -> Callable[[Mapping[str, int]], Window]:
    return lambda size: Window.of(form.operator, size, stride, padding, dilation)


__all__ = [
    "conv2d",
    "conv2d_hwcn",
    "conv2d_nchw",
    "conv2d_nhwc",
    "group_conv2d_nchw",
    "group_conv2d_nhwc",
]
