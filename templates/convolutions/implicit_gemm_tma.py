"""Windows of NHWC images as the left operand of products by boxes: `implicit_gemm_tma.h`.

The copy engine's mode "im2col" takes pixels of the result in the order in which they stand,
through all images, so that tiles are those of any other product.
"""

from __future__ import annotations

from .. import common
from ..products.gemm_shape import HALVES, TF32, Product
from ..tensor_map import ITEM_BYTES, ROW_BYTES, windows_map
from .conv2d_nhwc import Conv2dNhwc

# How far from an image's first pixel the first window may begin, and from its last one the last
# window, and how far one from the next.
MOST_AWAY, MOST_STRIDE = 127, 8


def refusal(shape: Product) -> str | None:
    """Return why the copy engine cannot bring windows as the left operand, or None."""
    if not isinstance(shape, Conv2dNhwc):
        return "operands must be matrices, or windows of NHWC images"
    window, panel = shape.window, ROW_BYTES // ITEM_BYTES[shape.dtype]
    away = max(*window.padding[:2], *(abs(each) for each in _behind(shape)))
    rules = [
        (
            shape.dtype not in (*HALVES, TF32),
            "windows must be of 16-bit floats, or floats as TF32",
        ),
        (shape.groups > 1, "windows must be of one group of channels"),
        (shape.ci % panel > 0, f"pixels of images must be multiples of {panel} channels"),
        (away > MOST_AWAY, f"windows must begin within {MOST_AWAY} pixels of an image's ends"),
        (max(window.stride) > MOST_STRIDE, f"strides must be at most {MOST_STRIDE}"),
    ]
    return common.first_broken(rules)


def _behind(shape: Conv2dNhwc) -> tuple[int, int]:
    """Return where the last windows may begin, from the last column and row of an image on."""
    (_, _, bottom, right), (ry, rx) = shape.window.padding, shape.window.reach
    return right - rx + 1, bottom - ry + 1


def map_of(shape: Conv2dNhwc, pixels: int) -> tuple[int, ...]:
    """Return the map by which windows of so many pixels of the result are copied at a time."""
    top, left, _, _ = shape.window.padding
    sy, sx = shape.window.stride
    images = (shape.images, shape.h, shape.w, shape.ci)
    return windows_map(images, shape.dtype, pixels, (-left, -top), _behind(shape), (sx, sy))
