"""NHWC images as the left operand of an implicit GEMM, loaded by TMA in im2col mode.

In that mode a row of the box is an output pixel, counted through all images, so tiles are those of
any other product. A box has 128 bytes of channels of one tap: where these do not divide the
channels, TMA fills the last box of a tap with zeros, and K counts them; filters are then loaded as
one matrix for each tap, of which rows beyond the channels are zeros too. The kernel's side is
`implicit_gemm_tma.h`.
"""

from __future__ import annotations

from .. import common
from ..products.gemm_shape import HALVES, TF32, Product
from ..tensor_map import ITEM_BYTES, ROW_BYTES, im2col_map, matrices_map, tensor_map
from .conv2d_nhwc import AcrossGroups, Conv2dNhwc

# Limits of the offsets of the bounding box's corners, and of the strides, in im2col mode.
MOST_OFFSET, MOST_STRIDE = 127, 8
# Columns of the narrowest tile, which has those of one group or of joined ones, and of a tile of
# floats, whose operands are swapped.
LEAST_COLUMNS, LEAST_SWAPPED = 16, 64


def refusal(shape: Product) -> str | None:
    """Return why TMA cannot load an implicit left operand, or None."""
    if not isinstance(shape, Conv2dNhwc):
        return "operands must be matrices, or NHWC images"
    window, width = shape.window, ROW_BYTES // ITEM_BYTES[shape.dtype]
    offset = max(*window.padding[:2], *(abs(each) for each in _upper_corner(shape)))
    rules = [
        (
            shape.dtype not in (*HALVES, TF32),
            "images must be of 16-bit floats, or floats as TF32",
        ),
        (
            shape.groups > 1 and not _is_one_product(shape),
            "channels must be in one group, or in groups of whole 16 bytes, whose filters, or "
            f"those of groups that fill 128 bytes together, are at least {LEAST_COLUMNS}, and as "
            f"TF32 multiples of {LEAST_SWAPPED}",
        ),
        (
            shape.transpose_b and shape.a_run % width > 0 and not shape.exact,
            f"input channels must be a multiple of {width} where filters are K-major",
        ),
        (offset > MOST_OFFSET, f"corners of the bounding box must be within {MOST_OFFSET} pixels"),
        (max(window.stride) > MOST_STRIDE, f"strides must be at most {MOST_STRIDE}"),
    ]
    return common.first_broken(rules)


def _is_one_product(shape: Conv2dNhwc) -> bool:
    """Return whether a tile can have columns of one group, or of joined ones.

    Floats have swapped operands, as their filters are MN-major: tiles of 64 filters and more.
    """
    if not isinstance(shape, AcrossGroups):
        return False
    columns, vector = shape.joined * shape.filters, shape.panel // 8
    enough = columns % LEAST_SWAPPED == 0 if shape.dtype == TF32 else columns >= LEAST_COLUMNS
    return enough and shape.a_run % vector == 0 and shape.filters % vector == 0


def tap_run(shape: Conv2dNhwc) -> int:
    """Return the extent of K of one tap: the channels of a group, in whole boxes."""
    width = ROW_BYTES // ITEM_BYTES[shape.dtype]
    return common.ceil_div(shape.a_run, width) * width


def has_map_of_filters(shape: Conv2dNhwc) -> bool:
    """Return whether filters are loaded tap by tap, as their K rows are not those of boxes."""
    return tap_run(shape) > shape.a_run


def depth(shape: Conv2dNhwc) -> int:
    """Return the extent of K, with the zeros that boxes have."""
    return shape.window.taps * tap_run(shape)


def filters_map(shape: Conv2dNhwc, rows: int = 0) -> tuple[int, ...]:
    """Return the tensor map of filters as one matrix a tap, whose boxes are K rows of a box.

    Those of joined groups have K rows of one of them.

    Args:
        rows: of a box; 0 means all.
    """
    height, taps = rows or ROW_BYTES // ITEM_BYTES[shape.dtype], shape.window.taps
    if isinstance(shape, AcrossGroups) and shape.joined > 1:
        return tensor_map(taps * shape.a_run, shape.co, shape.dtype, shape.a_run)
    return matrices_map(taps, shape.a_run, shape.co, shape.dtype, height)


def _upper_corner(shape: Conv2dNhwc) -> tuple[int, int]:
    """Return the offset (x, y) of the last filter position from the last pixel of an image."""
    (_, _, bottom, right), (ry, rx) = shape.window.padding, shape.window.reach
    return right - rx + 1, bottom - ry + 1


def map_of(shape: Conv2dNhwc, pixels: int) -> tuple[int, ...]:
    """Return the tensor map whose boxes have so many output pixels."""
    top, left, _, _ = shape.window.padding
    sy, sx = shape.window.stride
    images = (shape.images, shape.h, shape.w, shape.ci)
    return im2col_map(images, shape.dtype, pixels, (-left, -top), _upper_corner(shape), (sx, sy))
