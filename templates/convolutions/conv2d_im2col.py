"""Convolutions NCHW of float32 whose windows are written as a matrix, for `gemm_bf16x3`.

Where windows do not overlap, as patches of a vision transformer, such a matrix costs as little as
another copy; where they do, many filters outweigh it (Chellapilla et al., "High Performance
Convolutional Neural Networks for Document Processing", 2006). It serves layers that
`conv2d_bf16x3`, whose tiles have several rows of pixels, does not: lines of speech above all, and
windows with wide gaps, which find no room in the registers of `conv2d_cuda`. The
kernel before the product, which splits floats into pieces, writes the windows. Filters are the
left operand, as they are, and the product is the result, NCHW; a bias, a number a row of it, is
one product more: of itself and one.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import lru_cache

from autotune import SourceKernel, Target, call, workspace

from .. import common
from ..epilogue import Epilogue
from ..products import gemm_bf16x3
from ..products.gemm_bf16x3 import MULTIPROCESSORS, PACK_THREADS, Bf16x3Tiling
from ..products.gemm_shape import Gemm
from . import conv2d_bf16x3, conv2d_cuda
from .conv2d_shape import Conv2d

# Sums from which on products outweigh what goes before them.
LONG_SUM = 128
# Elements of the matrix of windows, at most: 1 GiB.
MOST_ELEMENTS = 2**28


def product_of(shape: Conv2d) -> Gemm:
    """Return the product that a convolution is: of filters, and of windows as rows."""
    window = shape.ci * shape.taps
    return Gemm(
        shape.co, shape.oh * shape.ow, window + shape.bias * (4 - window % 4), "float32", shape.n,
        transpose_b=True, shared="a" if shape.n > 1 else "",
        rest=Epilogue(activation=shape.epilogue.activation),
    )  # fmt: skip


def offered(shape: Conv2d, target: Target) -> bool:
    """Return whether a target multiplies so, and it pays for a shape."""
    plain = Epilogue(shape.bias, activation=shape.epilogue.activation)
    long = shape.taps > 1 and shape.ci * shape.taps >= LONG_SUM
    if shape.epilogue != plain or shape.groups > 1 or not long:
        return False
    product = product_of(shape)
    if product.batch * product.n * product.k > MOST_ELEMENTS:
        return False
    if conv2d_cuda.is_too_wide(shape):
        return gemm_bf16x3.runs_on(target)
    # Of fewer filters half of a tile's rows would be idle.
    many = shape.co > gemm_bf16x3.TILE_M // 2
    if not (many and gemm_bf16x3.offered(product, target)):
        return False
    apart = shape.stride[0] >= shape.kh and shape.stride[1] >= shape.kw
    return apart or _pays(replace(shape.alone, bias=shape.bias), target)


@lru_cache(maxsize=1024)
def _pays(shape: Conv2d, target: Target) -> bool:
    """Return whether windows that overlap are faster so than by ``fmaf``.

    On an H200 three lines of speech took 47, 23 and 78 us so, and 168, 28 and 84 by ``fmaf``: 3000
    pixels of 512 and of 80 channels by 512 filters of 3 taps, and 8192 of 128 by 128 of 11.
    """
    best = estimate(shape, default_choice(shape, target), target)
    return best < conv2d_bf16x3.fma_cycles(shape, target)


def candidates(shape: Conv2d) -> dict[str, list[int]]:
    """Return the values each knob may take."""
    return gemm_bf16x3.candidates(product_of(shape))


def violation(shape: Conv2d, choice: Mapping[str, int], target: Target) -> str | None:
    """Return why a choice cannot run or is sure to be slow, or None."""
    return gemm_bf16x3.violation(product_of(shape), choice, target)


def estimate(shape: Conv2d, choice: Mapping[str, int], target: Target) -> float:
    """Return a rough number of cycles: of the product, and of writing windows."""
    product = product_of(shape)
    multiprocessors = target.limits.sm_count if target.limits.sm_count > 1 else MULTIPROCESSORS
    written = 4 * product.batch * product.n * product.k / (16 * multiprocessors)
    return gemm_bf16x3.estimate(product, choice, target) + written


def default_choice(shape: Conv2d, target: Target) -> dict[str, int]:
    """Return a good guess for a shape that was never tuned."""
    return gemm_bf16x3.default_choice(product_of(shape), target)


def kernel(shape: Conv2d, choice: Mapping[str, int]) -> SourceKernel:
    """Return the kernels of a choice of knobs: writing and splitting windows, and the product."""
    product = product_of(shape)
    source, tiling = gemm_bf16x3.kernel(product, choice), Bf16x3Tiling(product, choice)
    window = shape.ci * shape.taps
    filters = "filters" if shape.bias else "weight"
    names = {"a": filters, "b": "windows", "c": "out"}
    last = source.calls[-1]
    calls = [
        call(
            "im2col_bf16x3",
            ["data", "weight", *(["bias"] if shape.bias else []), filters, "windows",
             "packed_a", "packed_b", "flags"],
            tiling.a_tiles + tiling.b_tiles, PACK_THREADS,
        ),
        replace(last, args=tuple(names.get(name, name) for name in last.args)),
    ]  # fmt: skip
    (sy, sx), (dy, dx), (py, px, *_) = shape.stride, shape.dilation, shape.window.padding
    # Neighbours of a line are read together where all of them are within an image, or none.
    together = common.widest(shape.kw, sx, shape.w, window, product.k, px) if dx == 1 else 1
    sizes = common.defines(
        begins=shape.bias, window=window, a_vec=common.widest(window, product.k),
        b_vec=together, ci=shape.ci, ih=shape.h, iw=shape.w, ow=shape.ow,
        kh=shape.kh, kw=shape.kw, sy=sy, sx=sx, dy=dy, dx=dx, py=py, px=px,
        padded=any(shape.window.padding),
    )  # fmt: skip
    rooms = {"windows": shape.n * product.n * product.k}
    rooms |= {"filters": product.m * product.k} if shape.bias else {}
    return replace(
        source,
        name=calls[0].entry,
        source=f"{source.source}\n{common.text('im2col_bf16x3.cu')}",
        defines={**source.defines, **sizes},
        calls=calls,
        args=shape.arguments(),
        reference=shape.reference(),
        workspace=[
            *source.workspace,
            *(workspace(name, (size,), "float32") for name, size in rooms.items()),
        ],
    )
