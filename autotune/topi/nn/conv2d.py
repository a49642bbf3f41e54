"""Two-dimensional convolutions in the layouts NCHW, NHWC and HWCN, whole or in groups."""

from __future__ import annotations

from autotune import te
from autotune.ir import Expr
from autotune.te.tensor import Tensor
from autotune.topi.arguments import (
    asks,
    dtype_or_none,
    flag,
    integer,
    pair,
    plain_integer,
    takes,
)
from autotune.topi.nn.dense import factor_of
from autotune.topi.nn.pad import Padding
from autotune.topi.nn.window import Window, arrange, check_channels, extents
from autotune.topi.types import OneOrTwo

# The layout of the filters that goes with each layout of the data.
FILTERS = {"NCHW": "OIHW", "NHWC": "HWIO", "HWCN": "HWIO"}


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
    return _convolve(
        "conv2d_nchw", "NCHW", data, kernel, stride, padding, dilation, out_dtype, name="compute",
        tf32=tf32,
    )  # fmt: skip


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
    return _convolve(
        "conv2d_nhwc", "NHWC", data, kernel, stride, padding, dilation, out_dtype, "conv2d_nhwc",
        tf32=tf32,
    )  # fmt: skip


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
    return _convolve(
        "conv2d_hwcn", "HWCN", data, kernel, stride, padding, dilation, out_dtype, "conv2d_hwcn",
        tf32=tf32,
    )  # fmt: skip


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
    return _convolve(
        "group_conv2d_nchw", "NCHW", data, kernel, stride, padding, dilation, out_dtype,
        name="compute", groups=groups,
    )  # fmt: skip


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
    return _convolve(
        "group_conv2d_nhwc", "NHWC", data, kernel, stride, padding, dilation, out_dtype,
        name="compute", groups=groups,
    )  # fmt: skip


def _convolve(
    what: str,
    layout: str,
    data: Tensor,
    kernel: Tensor,
    stride: OneOrTwo,
    padding: Padding,
    dilation: OneOrTwo,
    out_dtype: str | None,
    name: str,
    groups: int = 1,
    tf32: bool = False,
) -> Tensor:
    """Convolve in any layout that has one for the filters in `FILTERS`."""
    images = extents(what, "data", data, layout)
    filters = extents(what, "kernel", kernel, FILTERS[layout])
    group_in = _divide(what, images["C"], groups)
    group_out = _divide(what, filters["O"], groups)
    check_channels(what, group_in, filters["I"])
    window = Window.of(what, filters, stride, padding, dilation)
    out = {**images, **window.output(what, images), "C": filters["O"]}
    padded = window.pad(data, layout, "pad_temp")
    element = {"I": te.reduce_axis((0, group_in), name="rc"), **window.axes("ry", "rx")}
    dtype = dtype_or_none(asks(what), "out_dtype", out_dtype) or data.dtype
    factor = factor_of(dtype, flag(asks(what), "tf32", tf32))

    def body(*index: Expr) -> Expr:
        at = dict(zip(layout, index, strict=True))
        first = te.indexdiv(at["C"], group_out) * group_in if groups > 1 else 0
        channel = first + element["I"]
        image = padded(*arrange(layout, {**at, **window.places(at, element), "C": channel}))
        weight = kernel(*arrange(FILTERS[layout], {**element, "O": at["C"]}))
        over = [element[letter] for letter in FILTERS[layout] if letter in element]
        return te.sum(factor(image) * factor(weight), axis=over)

    names = arrange(layout, {"N": "nn", "C": "ff", "H": "yy", "W": "xx"})
    attrs = {"layout_free_placeholders": [kernel]}
    result: Tensor = te.compute(arrange(layout, out), body, name, what, attrs, names)
    return result


def _divide(what: str, channels: int, groups: int) -> int:
    """Return the channels of one group.

    Raises:
        ExpressionError: the groups do not divide them.
    """
    number = asks(what).whole("groups", plain_integer(groups), least=1)
    if channels % number:
        asks(what).refuse("groups", f"a number that divides {channels} channels", groups)
    return channels // number


__all__ = [
    "conv2d",
    "conv2d_hwcn",
    "conv2d_nchw",
    "conv2d_nhwc",
    "group_conv2d_nchw",
    "group_conv2d_nhwc",
]
