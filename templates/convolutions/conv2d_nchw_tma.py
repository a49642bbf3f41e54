"""NCHW convolutions of 16-bit floats on Hopper: `gemm_tma` on a copy NHWC of the images.

A kernel transposes images to NHWC, whose windows TMA loads in im2col mode, or whose pixels are
rows of a matrix where filters are 1x1. The product has filters as rows and pixels of all images as
columns, and writes planes of the result as they lie (`image_planes`), so that nothing is copied
behind it; it is launched while images are copied. Filters are copied too, unless they are 1x1 with
channels in vectors: these are read as they are. As in cuDNN's NCHW kernels, which transpose images
for those of NHWC (NVIDIA, "Convolutional Layers User's Guide": tensor layouts), but for the result.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import fields, replace
from functools import lru_cache

from autotune import SourceKernel, Target, call, workspace
from autotune.kernel import KernelCall

from .. import common
from ..products import gemm_tma
from ..products.gemm_padded import COPYING_BYTES
from ..products.gemm_shape import HALVES, Product
from .conv2d_channels_first import VECTOR, Matrices, arguments, matrices_of, padded, reference
from .conv2d_nhwc import Conv2dNhwc
from .image_planes import PlanesOfProduct, PlanesOfWindows
from .via_conv2d import BYTES_A_CYCLE, LAUNCH_CYCLES, THREADS, WAITING_CYCLES


def product_of(shape: Conv2dNhwc) -> PlanesOfProduct | PlanesOfWindows:
    """Return what is multiplied: copies of images, by filters or copies of these."""
    whole = padded(shape)
    if shape.pointwise is None:
        return PlanesOfWindows(**{each.name: getattr(whole, each.name) for each in fields(whole)})
    filters = whole.co if copies_filters(shape) else shape.co
    return PlanesOfProduct(
        shape.m, filters, whole.ci, shape.dtype, transpose_b=not copies_filters(shape),
        plane=shape.h * shape.w,
    )  # fmt: skip


def _asked(shape: Conv2dNhwc) -> Product:
    """Return what is multiplied without the channels of zeros that copies have."""
    whole = product_of(shape)
    if isinstance(whole, PlanesOfProduct):
        return replace(whole, k=shape.ci)
    return replace(whole, ci=shape.ci)


def copies_filters(shape: Conv2dNhwc) -> bool:
    """Return whether filters are copied: all but those of rows that TMA reads."""
    return shape.pointwise is None or shape.ci % VECTOR > 0


def offered(shape: Conv2dNhwc, target: Target) -> bool:
    """Return whether a target has these kernels, and they can convolve such images."""
    plain = shape.dtype in HALVES and shape.groups == 1 and min(shape.ci, shape.co) >= VECTOR
    return plain and gemm_tma.offered(product_of(shape), target)


def candidates(shape: Conv2dNhwc) -> dict[str, list[int]]:
    """Return the values each knob may take for a shape."""
    return gemm_tma.candidates(product_of(shape))


def violation(shape: Conv2dNhwc, choice: Mapping[str, int], target: Target) -> str | None:
    """Return why a choice cannot run or is sure to be slow, or None."""
    return gemm_tma.violation(product_of(shape), choice, target)


@lru_cache(maxsize=1024)
def _untuned(shape: Conv2dNhwc, target: Target) -> Mapping[str, int]:
    return gemm_tma.default_choice(product_of(shape), target, free_bytes=COPYING_BYTES)


def default_choice(shape: Conv2dNhwc, target: Target) -> dict[str, int]:
    """Return a good guess for a shape that was never tuned: the best by estimate."""
    return dict(_untuned(shape, target))


def estimate(shape: Conv2dNhwc, choice: Mapping[str, int], target: Target) -> float:
    """Return a rough number of cycles, also of the copies."""
    moved = 4 * sum(each.size for each in copies(shape).values())
    copying = LAUNCH_CYCLES + WAITING_CYCLES + moved / BYTES_A_CYCLE / common.multiprocessors(target)
    return copying + gemm_tma.estimate(product_of(shape), choice, target)


@lru_cache(maxsize=1024)
def untuned_cycles(shape: Conv2dNhwc, target: Target) -> float:
    """Return the estimate of the untuned choice; infinity where none can run."""
    if not offered(shape, target):
        return math.inf
    choice = _untuned(shape, target)
    return math.inf if violation(shape, choice, target) else estimate(shape, choice, target)


def copies(shape: Conv2dNhwc) -> dict[str, Matrices]:
    """Return the transpositions before the product, by the names of arrays."""
    names = ("weight", "data") if copies_filters(shape) else ("data",)
    every = matrices_of(shape, padded(shape))
    return {name: every[name] for name in names}


def kernel(shape: Conv2dNhwc, choice: Mapping[str, int]) -> SourceKernel:
    """Return the kernels of a choice of knobs: of the copies, and of the product."""
    made, every = gemm_tma.kernel(product_of(shape), choice, _asked(shape)), copies(shape)
    names = {"a": "data", "b": "weight", "c": "out"}
    copied = {name: f"{name}_along_channels" for name in every}
    product = made.calls[0]
    args = [names.get(name, name) for name in product.args]
    product = replace(
        product,
        args=tuple(copied.get(name, name) for name in args),
        launch=replace(product.launch, early=True),
    )
    arranging: list[KernelCall] = [
        call(
            f"arrange_{name}", [name, copied[name]], each.blocks, THREADS,
            early=name == "data" and len(every) > 1,
        )
        for name, each in every.items()
    ]  # fmt: skip
    texts = common.text("dependent_launch.h", "conv2d_channels_first.cu")
    return replace(
        made,
        name=arranging[0].entry,
        source=f"{made.source}\n{texts}",
        defines={
            **made.defines,
            **{f"{name.upper()}_MATRICES": each.text for name, each in every.items()},
            **common.defines(behind_copies=1, filters=shape.co),
        },
        args=arguments(shape),
        calls=[*arranging, product],
        workspace=[
            *made.workspace,
            *(workspace(copied[name], (each.size,), shape.dtype) for name, each in every.items()),
        ],
        reference=reference(shape),
    )
