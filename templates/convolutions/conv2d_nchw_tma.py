"""NCHW convolutions of 16-bit floats on Hopper: `gemm_tma` on a copy of the images.

A kernel transposes images to NHWC, whose windows TMA loads in im2col mode, or whose pixels are
rows of a matrix where filters are 1x1. The product has filters as rows and pixels of all images as
columns, and writes planes of the result as they lie (`image_planes`), so that nothing is copied
behind it; it is launched while images are copied. Filters are copied too, unless they are 1x1 with
channels in vectors: these are read as they are. Where few pixels have large filters, windows are
copied instead (im2col), as rows in the order of the filters, which then are read as they are.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from functools import lru_cache

from autotune import SourceKernel, Target, call, workspace
from autotune.kernel import KernelCall

from .. import common
from ..products import gemm_tma
from ..products.gemm_padded import COPYING_BYTES
from ..products.gemm_shape import HALVES, LARGEST, Product
from ..products.gemm_tma_tiling import PANEL
from .conv2d_channels_first import VECTOR, Matrices, arguments, matrices_of, padded, reference
from .conv2d_nhwc import Conv2dNhwc
from .image_planes import PlanesOfProduct, PlanesOfWindows
from .via_conv2d import THREADS

# Filters from which on they fill a quarter of a tile's rows.
FEWEST = 16
# Cycles of the kernels that copy, and bytes that a multiprocessor moves in a cycle.
COPYING, BYTES_A_CYCLE = 2600, 28
# What the texts of kernels that copy are made of.
COPYING_TEXTS = ("dependent_launch.h", "store_whole.h")
# Pixels whose windows a block copies, and their channels, of many taps and of few.
PIXELS, FEW_CHANNELS, CHANNELS = 32, 8, 16
# Taps of windows that are copied, at most, and those that are few.
MOST_TAPS, FEW_TAPS = 46, 16


@dataclass(frozen=True)
class ByTma:
    """Kernels of products by TMA behind a kernel that copies.

    Attributes:
        windows: whether what is copied are windows, not images.
    """

    windows: bool = False

    def product_of(self, shape: Conv2dNhwc) -> PlanesOfProduct | PlanesOfWindows:
        """Return what is multiplied: copies of images, by filters or copies of these."""
        if self.windows:
            plane = shape.m // shape.images
            return PlanesOfProduct(
                shape.m, shape.co, shape.k, shape.dtype, transpose_b=True, plane=plane
            )
        whole = _padded(shape)
        if shape.pointwise is None:
            every = {each.name: getattr(whole, each.name) for each in fields(whole)}
            return PlanesOfWindows(**every)
        copied = self.copies_filters(shape)
        return PlanesOfProduct(
            shape.m, whole.co if copied else shape.co, whole.ci, shape.dtype,
            transpose_b=not copied, plane=shape.h * shape.w,
        )  # fmt: skip

    def _asked(self, shape: Conv2dNhwc) -> Product:
        """Return what is multiplied without the channels of zeros that copies have."""
        whole = self.product_of(shape)
        if isinstance(whole, PlanesOfProduct):
            return replace(whole, k=shape.k)
        return replace(whole, ci=shape.ci)

    def copies_filters(self, shape: Conv2dNhwc) -> bool:
        """Return whether filters are copied: all but those of rows that TMA reads."""
        return not self.windows and (shape.pointwise is None or shape.ci % VECTOR > 0)

    def offered(self, shape: Conv2dNhwc, target: Target) -> bool:
        """Return whether a target has these kernels, and they can convolve such images."""
        many = shape.ci >= VECTOR and shape.co >= FEWEST
        plain = shape.dtype in HALVES and shape.groups == 1 and many
        if not plain or (self.windows and not _has_windows(shape)):
            return False
        return gemm_tma.offered(self.product_of(shape), target)

    def candidates(self, shape: Conv2dNhwc) -> dict[str, list[int]]:
        """Return the values each knob may take for a shape."""
        return gemm_tma.candidates(self.product_of(shape))

    def violation(
        self, shape: Conv2dNhwc, choice: Mapping[str, int], target: Target
    ) -> str | None:
        """Return why a choice cannot run or is sure to be slow, or None."""
        return gemm_tma.violation(self.product_of(shape), choice, target)

    def default_choice(self, shape: Conv2dNhwc, target: Target) -> dict[str, int]:
        """Return a good guess for a shape that was never tuned: the best by estimate."""
        return dict(_untuned(self, shape, target))

    def estimate(self, shape: Conv2dNhwc, choice: Mapping[str, int], target: Target) -> float:
        """Return a rough number of cycles, also of the copies."""
        moved = 4 * sum(self._copied(shape).values())
        copying = COPYING + moved / BYTES_A_CYCLE / common.multiprocessors(target)
        return copying + gemm_tma.estimate(self.product_of(shape), choice, target)

    def untuned_cycles(self, shape: Conv2dNhwc, target: Target) -> float:
        """Return the estimate of the untuned choice; infinity where none can run."""
        if not self.offered(shape, target):
            return math.inf
        choice = _untuned(self, shape, target)
        if self.violation(shape, choice, target):
            return math.inf
        return self.estimate(shape, choice, target)

    def _transpositions(self, shape: Conv2dNhwc) -> dict[str, Matrices]:
        """Return the transpositions before the product, by the names of arrays."""
        names = ["weight"] * self.copies_filters(shape) + ["data"] * (not self.windows)
        every = matrices_of(shape, _padded(shape))
        return {name: every[name] for name in names}

    def _copied(self, shape: Conv2dNhwc) -> dict[str, int]:
        """Return the elements of the copies by the names of arrays."""
        if self.windows:
            return {"data": shape.m * shape.k}
        return {name: each.size for name, each in self._transpositions(shape).items()}

    def _copying(self, shape: Conv2dNhwc) -> tuple[str, dict[str, int], dict[str, int | str]]:
        """Return the text of the kernels that copy, their blocks, and its parameters."""
        if self.windows:
            channels = CHANNELS if shape.window.taps <= FEW_TAPS else FEW_CHANNELS
            blocks = common.ceil_div(shape.m, PIXELS) * common.ceil_div(shape.ci, channels)
            return "conv2d_windows.cu", {"data": blocks}, _sizes(shape, channels)
        every = self._transpositions(shape)
        texts: dict[str, int | str] = {f"{n.upper()}_MATRICES": e.text for n, e in every.items()}
        return "conv2d_channels_first.cu", {n: e.blocks for n, e in every.items()}, texts

    def kernel(self, shape: Conv2dNhwc, choice: Mapping[str, int]) -> SourceKernel:
        """Return the kernels of a choice of knobs: of the copies, and of the product."""
        made = gemm_tma.kernel(self.product_of(shape), choice, self._asked(shape))
        text, blocks, defines = self._copying(shape)
        names, copied = {"a": "data", "b": "weight", "c": "out"}, {n: f"{n}_copy" for n in blocks}
        args = [names.get(name, name) for name in made.calls[0].args]
        product = replace(
            made.calls[0],
            args=tuple(copied.get(name, name) for name in args),
            launch=replace(made.calls[0].launch, early=True),
        )
        copying: list[KernelCall] = [
            call(f"arrange_{name}", [name, copied[name]], count, THREADS, early=i > 0)
            for i, (name, count) in enumerate(blocks.items())
        ]
        copies = [
            workspace(copied[n], (size,), shape.dtype) for n, size in self._copied(shape).items()
        ]
        return replace(
            made,
            name=copying[0].entry,
            source=f"{made.source}\n{common.text(*COPYING_TEXTS, text)}",
            defines={
                **made.defines, **defines, **common.defines(behind_copies=1, filters=shape.co),
            },
            args=arguments(shape),
            calls=[*copying, product],
            workspace=[*made.workspace, *copies],
            reference=reference(shape),
        )  # fmt: skip


# Of copies of images, and of their windows.
OF_IMAGES, OF_WINDOWS = ByTma(), ByTma(windows=True)


@lru_cache(maxsize=1024)
def _untuned(family: ByTma, shape: Conv2dNhwc, target: Target) -> Mapping[str, int]:
    product = family.product_of(shape)
    return gemm_tma.default_choice(product, target, free_bytes=COPYING_BYTES)


def _padded(shape: Conv2dNhwc) -> Conv2dNhwc:
    """Return the convolution of copies: channels fill vectors, and filters boxes of TMA.

    TMA takes longer to write zeros for what a box has beyond a matrix than to load as many.
    """
    return replace(padded(shape), co=shape.co + -shape.co % PANEL)


def _has_windows(shape: Conv2dNhwc) -> bool:
    """Return whether windows can be copied: their rows are vectors, and not those of images."""
    few = shape.pointwise is None and shape.window.taps <= MOST_TAPS
    return few and shape.k % VECTOR == 0 and shape.m * shape.k <= LARGEST


def _sizes(shape: Conv2dNhwc, channels: int) -> dict[str, int | str]:
    """Return the parameters of the kernel that copies windows."""
    w, (oh, ow) = shape.window, shape.window.results(shape.h, shape.w)
    return {
        **common.defines(
            ci=shape.ci, ih=shape.h, iw=shape.w, oh=oh, ow=ow, kh=w.size[0], kw=w.size[1],
            sy=w.stride[0], sx=w.stride[1], py=w.padding[0], px=w.padding[1], dy=w.dilation[0],
            dx=w.dilation[1], windows=shape.m, window_channels=channels,
        )
    }  # fmt: skip
