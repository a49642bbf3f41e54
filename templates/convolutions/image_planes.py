"""Products whose rows are pixels and whose result is written as images NCHW: a plane a filter.

Only `gemm_tma` with swapped operands multiplies them: a tile's rows are filters then, its columns
pixels, counted through all images, and neighbours in a row are neighbours in memory.
"""

from __future__ import annotations

from dataclasses import dataclass

from ..products.gemm_shape import Gemm
from .conv2d_nhwc import Conv2dNhwc


@dataclass(frozen=True)
class PlanesOfProduct(Gemm):
    """A product of pixels NHWC by filters.

    Attributes:
        plane: pixels of an image.
    """

    plane: int = 1


@dataclass(frozen=True)
class PlanesOfWindows(Conv2dNhwc):
    """A convolution of images NHWC."""

    @property
    def plane(self) -> int:
        """Pixels of an image of the result."""
        return self.m // self.images


def plane_of(shape: object) -> int:
    """Return the pixels of a plane, where results are written as planes, else 0."""
    return shape.plane if isinstance(shape, PlanesOfProduct | PlanesOfWindows) else 0
