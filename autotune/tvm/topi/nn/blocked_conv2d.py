"""TVM's convolutions of images whose channels are stored in blocks."""

from __future__ import annotations

from collections.abc import Sequence

from autotune import te
from autotune.errors import ExpressionError
from autotune.ir import Expr
from autotune.te.tensor import Tensor
from autotune.topi import cast, reshape, transpose
from autotune.topi.arguments import pair
from autotune.topi.nn import get_pad_tuple, pad
from autotune.topi.utils import static_shape
from autotune.utils.check import Check

__all__ = ["conv2d_NCHWc", "conv2d_NCHWc_int8"]

# Channels of a block of bytes, which a GPU multiplies at once.
_BYTES = 4


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
    return _convolved(check, data, kernel, (stride, padding, dilation), out_dtype, -2)


def conv2d_NCHWc_int8(
    data: Tensor,
    kernel: Tensor,
    stride: int | Sequence[int],
    padding: int | str | Sequence[int],
    dilation: int | Sequence[int],
    layout: str,
    out_dtype: str = "int32",
) -> Tensor:
    """Convolve bytes in blocks of channels, and add up in int32: TVM's operator for CUDA.

    Args:
        data: (n, blocks of channels, rows, columns, channels of a block), or NCHW, whose channels
            are divided into blocks of 4.
        kernel: (blocks of filters, blocks of channels, rows, columns, filters, channels), or OIHW.
        stride, dilation: an int or (vertical, horizontal).
        padding: as of `conv2d`.
        layout: ``"NCHW4c"``, or ``"NCHW"`` where both have four dimensions.
        out_dtype: what the sums are converted to.

    Raises:
        ExpressionError: these are no bytes, channels or filters no multiples of 4, or blocks
            differ.
    """
    check = Check(ExpressionError, "conv2d_NCHWc_int8")
    check.one_of("layout", layout, ("NCHW", "NCHW4c"))
    for name, tensor in (("data", data), ("kernel", kernel)):
        if tensor.dtype not in ("int8", "uint8"):
            check.refuse(name, "of int8 or uint8", tensor)
    if data.ndim == 4:
        n, c, h, w = static_shape("conv2d_NCHWc_int8", "data", data, 4)
        o, i, kh, kw = static_shape("conv2d_NCHWc_int8", "kernel", kernel, 4)
        if c % _BYTES or o % _BYTES or i != c:
            check.refuse("kernel", f"OIHW of multiples of 4, for {c} channels", kernel)
        images = reshape(data, (n, c // _BYTES, _BYTES, h, w))
        data = transpose(images, (0, 1, 3, 4, 2))
        filters = reshape(kernel, (o // _BYTES, _BYTES, c // _BYTES, _BYTES, kh, kw))
        kernel = transpose(filters, (0, 2, 4, 5, 1, 3))
    found = _convolved(check, data, kernel, (stride, padding, dilation), "int32", -1)
    return found if out_dtype == "int32" else cast(found, out_dtype)


def _convolved(
    check: Check,
    data: Tensor,
    kernel: Tensor,
    moves: tuple[int | Sequence[int], int | str | Sequence[int], int | Sequence[int]],
    out_dtype: str,
    channels_at: int,
) -> Tensor:
    """Convolve blocks.

    Args:
        check: of the operator.
        data: images.
        kernel: filters.
        moves: stride, padding and dilation.
        out_dtype: type of the sums.
        channels_at: which axis of the kernel has the channels of a block; the other one of the
            last two has the filters.
    """
    stride, padding, dilation = moves
    name = check.owner
    n, chunks, rows, columns, block = static_shape(name, "data", data, 5)
    filters, *inner, a, b = static_shape(name, "kernel", kernel, 6)
    own, filter_block = (b, a) if channels_at == -1 else (a, b)
    if (inner[0], own) != (chunks, block):
        check.refuse("kernel", f"of {chunks} blocks of {block} channels, as the data is", kernel)
    kh, kw = inner[1:3]
    (sh, sw), (dh, dw) = pair()(check, "stride", stride), pair()(check, "dilation", dilation)
    reach_h, reach_w = (kh - 1) * dh + 1, (kw - 1) * dw + 1
    top, left, bottom, right = get_pad_tuple(padding, (reach_h, reach_w), name)
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
        first, last = (fi, inside) if channels_at == -1 else (inside, fi)
        weight = kernel[f, chunk, y, x, first, last]
        return te.sum(image.astype(out_dtype) * weight.astype(out_dtype), axis=[c, y, x])

    found: Tensor = te.compute(shape, sums, name=name, tag=name)
    return found
