"""Transposed convolutions: the input is dilated, then convolved by the flipped filters."""

from __future__ import annotations

from collections.abc import Sequence

from autotune import te
from autotune.ir import Expr
from autotune.te.tensor import Tensor
from autotune.topi.arguments import asks, dtype_or_none, pair, takes, tensor
from autotune.topi.nn.pad import Padding, get_pad_tuple
from autotune.topi.nn.window import check_channels
from autotune.topi.types import OneOrTwo
from autotune.topi.utils import static_shape

_WHAT = "conv2d_transpose_nchw"


@takes(data=tensor, kernel=tensor, out_dtype=dtype_or_none)
def conv2d_transpose_nchw(
    data: Tensor,
    kernel: Tensor,
    strides: OneOrTwo,
    padding: Padding,
    out_dtype: str | None = None,
    output_padding: OneOrTwo = (0, 0),
) -> Tensor:
    """Spread data [batch, in, height, width] by filters [in, out, height, width].

    Args:
        data: the images.
        kernel: the filters.
        strides: distances (vertical, horizontal) at which elements are spread.
        padding: what is cut off, as `get_pad_tuple` takes it.
        out_dtype: of products and sums; None for that of the data.
        output_padding: rows and columns added below and to the right; less than the strides.
    """
    n, ci, height, width = static_shape(_WHAT, "data", data, 4)
    own_ci, co, kh, kw = static_shape(_WHAT, "kernel", kernel, 4)
    check_channels(_WHAT, ci, own_ci)
    check = asks(_WHAT)
    steps = pair()(check, "strides", strides)
    more = pair(0)(check, "output_padding", output_padding)
    if more[0] >= steps[0] or more[1] >= steps[1]:
        check.refuse("output_padding", "less than the strides", more)
    top, left, bottom, right = get_pad_tuple(padding, (kh, kw), _WHAT)
    rows = (height - 1) * steps[0] + kh - top - bottom + more[0]
    columns = (width - 1) * steps[1] + kw - left - right + more[1]
    if rows < 1 or columns < 1:
        check.refuse("padding", "less than what the filters spread the data to", padding)
    room = (rows + kh - 1, columns + kw - 1)
    padded = _spread(data, room, (kh - 1 - top, kw - 1 - left), steps)
    flipped = te.compute(
        (co, ci, kh, kw),
        lambda o, i, h, w: kernel[i, o, kh - 1 - h, kw - 1 - w],
        "kernel_transform",
    )
    return _correlate(padded, flipped, (n, co, rows, columns), out_dtype or data.dtype)


def _correlate(images: Tensor, filters: Tensor, shape: tuple[int, ...], sums: str) -> Tensor:
    _, ci, kh, kw = static_shape(_WHAT, "kernel", filters, 4)
    dc = te.reduce_axis((0, ci), "dc")
    dh, dw = te.reduce_axis((0, kh), "dh"), te.reduce_axis((0, kw), "dw")
    result: Tensor = te.compute(
        shape,
        lambda b, c, h, w: te.sum(
            images[b, dc, h + dh, w + dw].astype(sums) * filters[c, dc, dh, dw].astype(sums),
            axis=[dc, dh, dw],
        ),
        "compute",
        _WHAT,
    )
    return result


def _spread(
    data: Tensor, room: tuple[int, int], before: tuple[int, int], strides: Sequence[int]
) -> Tensor:
    """Put ``strides`` between the elements of images, and zeros between and around them."""
    n, ci, *extents = static_shape(_WHAT, "data", data, 4)

    def element(b: Expr, c: Expr, h: Expr, w: Expr) -> Expr:
        there: list[Expr] = []
        at: list[Expr] = []
        for index, skip, step, extent in zip((h, w), before, strides, extents, strict=True):
            source = index - skip
            there += [source >= 0, source < (extent - 1) * step + 1]
            there += [te.indexmod(source, step) == 0] if step > 1 else []
            at.append(te.indexdiv(source, step) if step > 1 else source)
        return te.if_then_else(te.all(*there), data(b, c, *at), te.const(0, data.dtype))

    result: Tensor = te.compute((n, ci, *room), element, "data_pad")
    return result
