"""Float32 NCHW convolutions as products of the filters and the images, as they lie.

An image is a matrix with a row for each channel, and so is its result: c[co, pixels] = weight[co,
ci] data[ci, pixels], one product for each image. `gemm_bf16x3_fused` reads rows of any length,
splits what it multiplies, and has the epilogue of each row; either operand may be the left one, so
that few filters, or few pixels, leave no tile half empty. With a stride it reads every few pixels
of the rows (`Subsampled`). `conv2d_bf16x3` has tiles of 64 filters and of eight pixels of several
rows, and splits images again for each of them. So layers of few filters with windows, padding or
groups are such products too, whose pixels are the left operand, gathered (`Windows`).
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from functools import cached_property, lru_cache

from autotune import SourceKernel, Target

from ..common import defines
from ..products import gemm_bf16x3_fused
from ..products.gemm_shape import Gemm
from ..products.gemm_wgmma import has_wgmma
from .conv2d_shape import Conv2d
from .window_shape import INT32_MAX

# By what the estimate is multiplied before it is compared with those of other families. Of 40
# drawn layers on an H200 the family of the least product took 1.025 times as long as the fastest
# one, with 1.3 1.032 times; of 46 others, with a stride of 1, 1.012 and 1.033.
SHARE = 1.15
# The same of windows. With it none of 30 layers on an H200 took longer than before.
GATHERED_SHARE = 1.27
# Filters of a group up to which windows are gathered: half of a tile of `conv2d_bf16x3`.
FEW_FILTERS = 32


@dataclass(frozen=True)
class Subsampled(Gemm):
    """A product whose b is every few columns of every few rows of an image of each channel.

    Attributes:
        image: rows and columns of an image.
        stride: of rows and columns.
    """

    image: tuple[int, int] = (1, 1)
    stride: tuple[int, int] = (1, 1)

    @property
    def b_apart(self) -> bool:
        """Whether neighbours along a row of b lie apart in memory."""
        return True

    @cached_property
    def shapes(self) -> tuple[tuple[int, ...], tuple[int, ...], tuple[int, ...]]:
        """Shapes of a, b and c as they are stored; of b the rows that are read."""
        a, b, c = super().shapes
        (h, w), (sy, _) = self.image, self.stride
        return a, (*b[:-1], -(-h // sy) * w), c

    def operands(self) -> dict[str, int | str]:
        """Return what ``operands.h`` is parameterised by, and places of pixels."""
        (h, w), (sy, sx) = self.image, self.stride
        columns = (w - 1) // sx + 1
        sizes = defines(subsampled=1, ih=h, iw=w, ow=columns, sy=sy, sx=sx)
        return {**super().operands(), **sizes, "B_STRIDE": self.k * h * w}


@dataclass(frozen=True)
class Windows(Gemm):
    """A product for each group of each image whose b is the im2col matrix, which is gathered.

    Attributes:
        of: the convolution.
    """

    of: Conv2d = field(kw_only=True)

    @property
    def gathers(self) -> bool:
        """Whether an operand is gathered: b, as it lies apart."""
        return True

    @property
    def b_apart(self) -> bool:
        """Whether neighbours along a row of b lie apart in memory."""
        return True

    @property
    def b_run(self) -> int:
        """Elements of a window that are neighbours in memory, whatever its taps are."""
        return 1

    @cached_property
    def shapes(self) -> tuple[tuple[int, ...], tuple[int, ...], tuple[int, ...]]:
        """Shapes of filters, images and results."""
        s = self.of
        return (
            (s.co, s.ci // s.groups, s.kh, s.kw), (s.n, s.ci, s.h, s.w), (s.n, s.co, s.oh, s.ow),
        )  # fmt: skip

    def operands(self) -> dict[str, int | str]:
        """Return what ``operands.h`` is parameterised by, and places of elements of windows."""
        s = self.of
        (sy, sx), (dy, dx), (py, px, *_) = s.stride, s.dilation, s.window.padding
        channels = s.ci // s.groups
        sizes = defines(
            planes=1, plane_groups=s.groups, group_ci=channels, ih=s.h, iw=s.w, oh=s.oh, ow=s.ow,
            kw=s.kw, sy=sy, sx=sx, dy=dy, dx=dx, py=py, px=px, ci=s.ci,
            a_stride=self.m * self.k, b_stride=channels * s.h * s.w,
        )  # fmt: skip
        return {**super().operands(), **sizes}


def product_of(shape: Conv2d) -> Gemm:
    """Return the product that computes a convolution."""
    if not _is_pointwise(shape):
        groups = shape.groups
        return Windows(
            shape.co // groups, shape.oh * shape.ow, shape.ci // groups * shape.taps, "float32",
            shape.n * groups, transpose_b=True, epilogue=shape.epilogue, by_rows=True, of=shape,
        )  # fmt: skip
    product = Gemm(
        shape.co, shape.oh * shape.ow, shape.ci, "float32", shape.n,
        shared="a" if shape.n > 1 else "", epilogue=shape.epilogue, by_rows=True,
    )  # fmt: skip
    if shape.stride == (1, 1):
        return product
    given = {each.name: getattr(product, each.name) for each in fields(product)}
    return Subsampled(**given, image=(shape.h, shape.w), stride=shape.stride)


def offered(shape: Conv2d, target: Target) -> bool:
    """Return whether a convolution is such products, and a target multiplies so."""
    small = shape.ci * max(shape.h * shape.w, shape.taps) <= INT32_MAX
    few = shape.co // shape.groups <= FEW_FILTERS and small
    return (few or _is_pointwise(shape)) and not shape.kept and has_wgmma(target)


def _is_pointwise(shape: Conv2d) -> bool:
    plain = not any(shape.window.padding) and shape.groups == 1
    return shape.taps == 1 and plain


@lru_cache(maxsize=1024)
def untuned_cycles(shape: Conv2d, target: Target) -> float:
    """Return the cycles of the untuned choice; infinity where none can run."""
    choice = default_choice(shape, target)
    if violation(shape, choice, target):
        return math.inf
    share = SHARE if _is_pointwise(shape) else GATHERED_SHARE
    return share * estimate(shape, choice, target)


def candidates(shape: Conv2d) -> dict[str, list[int]]:
    """Return the values each knob may take."""
    return gemm_bf16x3_fused.candidates(product_of(shape))


def violation(shape: Conv2d, choice: Mapping[str, int], target: Target) -> str | None:
    """Return why a choice cannot run or is sure to be slow, or None."""
    return gemm_bf16x3_fused.violation(product_of(shape), choice, target)


def estimate(shape: Conv2d, choice: Mapping[str, int], target: Target) -> float:
    """Return a rough number of cycles."""
    return gemm_bf16x3_fused.estimate(product_of(shape), choice, target)


def default_choice(shape: Conv2d, target: Target) -> dict[str, int]:
    """Return a good guess for a shape that was never tuned."""
    return gemm_bf16x3_fused.default_choice(product_of(shape), target)


def kernel(shape: Conv2d, choice: Mapping[str, int]) -> SourceKernel:
    """Return the kernels of a choice of knobs."""
    source = gemm_bf16x3_fused.kernel(product_of(shape), choice)
    names = {"a": "weight", "b": "data", "c": "out"}
    calls = [
        replace(one, args=tuple(names.get(name, name) for name in one.args))
        for one in source.calls
    ]
    return replace(source, calls=calls, args=shape.arguments(), reference=shape.reference())
