"""TVM's convolution of images whose channels are stored in blocks."""

from __future__ import annotations

from collections.abc import Sequence

from autotune import te
from autotune.errors import ExpressionError
from autotune.ir import Expr
from autotune.te.tensor import Tensor
from autotune.topi.arguments import pair
from autotune.topi.nn import get_pad_tuple, pad
from autotune.topi.utils import static_shape
from autotune.utils.check import Check

__all__ = ["conv2d_NCHWc"]


def conv2d_NCHWc(
    data: Tensor,
    kernel: Tensor,
    stride: int | Sequence[int],
    padding: int | str | Sequence[int],
    dilation: int | Sequence[int],
    layout: str,
    out_layout: str,
    out_dtype: str = "float32",
) -> Tensor:
    """Convolve images with channels in blocks.

    Args:
        data: (n, blocks of channels, rows, columns, channels of a block).
        kernel: (blocks of filters, blocks of channels, rows, columns, channels, filters).
        stride, dilation: an int or (vertical, horizontal).
        padding: as of `conv2d`.
        layout, out_layout: such as ``"NCHW8c"``; the blocks are those of the shapes.
        out_dtype: type of the sums and of the result.

    Raises:
        ExpressionError: the blocks of data and filters differ, or filters exceed the images.
    """
    check = Check(ExpressionError, "conv2d_NCHWc")
    for name, value in (("layout", layout), ("out_layout", out_layout)):
        if not check.text(name, value).startswith("NCHW"):
            check.refuse(name, "NCHW and a block of channels, such as 'NCHW8c'", value)
    n, chunks, rows, columns, block = static_shape("conv2d_NCHWc", "data", data, 5)
    filters, *inner, filter_block = static_shape("conv2d_NCHWc", "kernel", kernel, 6)
    if (inner[0], inner[3]) != (chunks, block):
        check.refuse("kernel", f"of {chunks} blocks of {block} channels, as the data is", kernel)
    kh, kw = inner[1:3]
    (sh, sw), (dh, dw) = pair()(check, "stride", stride), pair()(check, "dilation", dilation)
    reach_h, reach_w = (kh - 1) * dh + 1, (kw - 1) * dw + 1
    top, left, bottom, right = get_pad_tuple(padding, (reach_h, reach_w), "conv2d_NCHWc")
    padded = rows + top + bottom, columns + left + right
    if padded[0] < reach_h or padded[1] < reach_w:
        check.refuse("kernel", f"at most as large as padded images of {padded}", kernel)
    if top or left or bottom or right:
        data = pad(data, (0, 0, top, left, 0), (0, 0, bottom, right, 0), name="data_pad")
    shape = (
        n, filters, (padded[0] - reach_h) // sh + 1, (padded[1] - reach_w) // sw + 1,
        filter_block,
    )  # fmt: skip
    c, y, x = (
        te.reduce_axis((0, e), name=v) for e, v in ((chunks * block, "ic"), (kh, "kh"), (kw, "kw"))
    )

    def sums(n: Expr, f: Expr, h: Expr, w: Expr, fi: Expr) -> Expr:
        chunk, inside = te.floordiv(c, block), te.floormod(c, block)
        image = data[n, chunk, h * sh + y * dh, w * sw + x * dw, inside]
        weight = kernel[f, chunk, y, x, inside, fi]
        return te.sum(image.astype(out_dtype) * weight.astype(out_dtype), axis=[c, y, x])

    found: Tensor = te.compute(shape, sums, name="conv2d_NCHWc", tag="conv2d_NCHWc")
    return found
