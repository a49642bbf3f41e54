"""Float32 NCHW convolutions as explicit im2col and a product of `gemm_bf16x3`.

Where windows do not overlap, as in the patch embedding of a vision transformer, the im2col matrix
costs no more than a copy; where they do, many filters pay for it (Chellapilla et al., "High
Performance Convolutional Neural Networks for Document Processing", 2006). It serves layers that
`conv2d_bf16x3`, whose tiles have several rows of pixels, does not: 1-D convolutions above all, and
large dilations, for which `conv2d_cuda` would need too many registers. The kernel that splits
floats for the product writes the matrix too. The filters are the left operand, and the product is
the NCHW result; a bias, one number a row, is one more element of the sum: bias times one.

The matrix of a pointwise layer is the image, with a row for each channel. Without a bias, a stride
and padding it is not written, but split where it is. So large layers are split once, which
`conv2d_bf16x3` does again for every 64 filters.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import lru_cache

from autotune import SourceKernel, Target, call, workspace

from .. import common
from ..epilogue import Epilogue
from ..products import gemm_bf16x3, gemm_float
from ..products.gemm_bf16x3 import PACK_THREADS, Bf16x3Tiling
from ..products.gemm_shape import Gemm
from ..products.gemm_wgmma import has_wgmma
from . import conv2d_cuda
from .conv2d_shape import Conv2d

# The least K for which the product outweighs writing the matrix, and splitting images.
LEAST_K, LEAST_CHANNELS = 128, 64
# Channels from which on pointwise layers with a bias are faster so: for it images are copied, and
# a K tile more is multiplied. 160 channels by 320 filters on 80x80 pixels took 19.9 us on an H100,
# 17.1 by `conv2d_bf16x3`, 1240 by 576 on 27x27 23.0 and 39.1.
BIASED_CHANNELS = 512
# What makes the estimate comparable to those of other families.
SHARE, OVERLAPPED = 1.28, 2240
# Elements of the im2col matrix, at most: 1 GiB.
MOST_ELEMENTS = 2**28


def product_of(shape: Conv2d) -> Gemm:
    """Return the product that computes a convolution: filters times im2col rows."""
    window = shape.ci * shape.taps
    return Gemm(
        shape.co, shape.oh * shape.ow, window + shape.bias * (4 - window % 4), "float32", shape.n,
        transpose_b=shape.taps > 1, shared="a" if shape.n > 1 else "",
        epilogue=Epilogue(residual=shape.residual, activation=shape.epilogue.activation),
    )  # fmt: skip


def is_in_place(shape: Conv2d) -> bool:
    """Return whether the images are the im2col matrix."""
    plain = shape.stride == (1, 1) and not any(shape.window.padding) and not shape.bias
    return shape.taps == 1 and plain


def offered(shape: Conv2d, target: Target) -> bool:
    """Return whether a target multiplies so, and it pays for a shape."""
    simple = Epilogue(shape.bias, shape.residual, activation=shape.epilogue.activation)
    long = shape.ci * shape.taps >= (LEAST_K if shape.taps > 1 else LEAST_CHANNELS)
    if shape.epilogue != simple or shape.groups > 1 or not long:
        return False
    if shape.taps == 1 and (shape.residual or (shape.bias and shape.ci < BIASED_CHANNELS)):
        return False
    product = product_of(shape)
    if product.batch * product.n * product.k > MOST_ELEMENTS:
        return False
    if conv2d_cuda.is_too_wide(shape):
        return has_wgmma(target)
    # With fewer filters half of a tile's rows would be idle.
    many = shape.co > gemm_bf16x3.TILE_M // 2
    return many and gemm_float.family_of(product, target, ()) in gemm_float.ON_TENSOR_CORES


@lru_cache(maxsize=1024)
def untuned_cycles(shape: Conv2d, target: Target) -> float:
    """Return the cycles of the untuned choice, comparable to those of the other families.

    Launches overlap, so that a second kernel costs less than the estimate says. So it fits 48
    layers on an H100, with an error of 15%.
    """
    return SHARE * estimate(shape, default_choice(shape, target), target) - OVERLAPPED


def candidates(shape: Conv2d) -> dict[str, list[int]]:
    """Return the values each knob may take."""
    return gemm_bf16x3.candidates(product_of(shape))


def violation(shape: Conv2d, choice: Mapping[str, int], target: Target) -> str | None:
    """Return why a choice cannot run or is sure to be slow, or None."""
    return gemm_bf16x3.violation(product_of(shape), choice, target)


def estimate(shape: Conv2d, choice: Mapping[str, int], target: Target) -> float:
    """Return a rough number of cycles: of the product, and of writing the im2col matrix."""
    product = product_of(shape)
    multiprocessors = common.multiprocessors(target)
    floats = 0 if is_in_place(shape) else product.batch * product.n * product.k
    written = 4 * floats / (16 * multiprocessors)
    # Shares of this estimate were fitted with such a factor for odd images.
    return gemm_bf16x3.estimate(product, choice, target, 1.6 * (product.n % 2)) + written


def default_choice(shape: Conv2d, target: Target) -> dict[str, int]:
    """Return a good guess for a shape that was never tuned."""
    return gemm_bf16x3.default_choice(product_of(shape), target)


def kernel(shape: Conv2d, choice: Mapping[str, int]) -> SourceKernel:
    """Return the kernels of a choice of knobs: im2col with splitting, and the product."""
    product = product_of(shape)
    source, tiling = gemm_bf16x3.kernel(product, choice), Bf16x3Tiling(product, choice)
    window = shape.ci * shape.taps
    filters = "filters" if shape.bias else "weight"
    columns = "data" if is_in_place(shape) else "columns"
    names = {"a": filters, "b": columns, "c": "out"}
    last = source.calls[-1]
    calls = [
        call(
            "im2col_bf16x3",
            ["data", "weight", *(["bias"] if shape.bias else []), filters, columns,
             "packed_a", "packed_b", "flags"],
            tiling.a_tiles + tiling.b_tiles, PACK_THREADS,
        ),
        replace(last, args=tuple(names.get(name, name) for name in last.args)),
    ]  # fmt: skip
    (sy, sx), (dy, dx), (py, px, *_) = shape.stride, shape.dilation, shape.window.padding
    # A vector of neighbours is either all inside an image or all outside.
    together = common.widest(shape.kw, sx, shape.w, window, product.k, px) if dx == 1 else 1
    sizes = common.defines(
        has_bias=shape.bias, window=window, a_vec=common.widest(window, product.k),
        b_vec=together, ci=shape.ci, ih=shape.h, iw=shape.w, ow=shape.ow,
        kh=shape.kh, kw=shape.kw, sy=sy, sx=sx, dy=dy, dx=dx, py=py, px=px,
        padded=any(shape.window.padding), in_place=is_in_place(shape),
    )  # fmt: skip
    buffers = {} if is_in_place(shape) else {"columns": shape.n * product.n * product.k}
    buffers |= {"filters": product.m * product.k} if shape.bias else {}
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
            *(workspace(name, (size,), "float32") for name, size in buffers.items()),
        ],
    )
