"""Registers the source templates of NHWC, depthwise and Winograd convolutions, and pooling."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, cast

from autotune import SourceKernel, Target, get_config
from autotune.errors import TemplateError
from autotune.kernel import Argument

from .alternatives import Alternatives
from .arguments import template
from .convolutions import (
    conv2d_channels_first,
    conv2d_few_filters,
    conv2d_in_groups,
    conv2d_narrow,
    conv2d_nchw_families,
    conv2d_nhwc,
    conv2d_nhwc_float,
    conv2d_padded,
    max_pool_bytes,
    window_cpu,
    window_cuda,
    winograd_cpu,
    winograd_cuda,
)
from .convolutions.window_shape import INT32_MAX, Depthwise, Pool, Window, four, two
from .epilogue import Epilogue
from .products import gemm_half, gemm_mma, gemm_padded, gemm_transposed
from .products.gemm_shape import HALVES, TF32, stored
from .source import family_of_product, tensor_core_family, tunable

Extents = int | Sequence[int]


@template("depthwise_conv2d.cuda")
def depthwise_conv2d_cuda(
    n: int, h: int, w: int, channels: int, multiplier: int, kh: int, kw: int,
    stride: Extents = 1, padding: Extents = 0, bias: bool = False, activation: str = "none",
    residual: bool = False, affine: bool = False, dilation: Extents = 1, layout: str = "NCHW",
    dtype: str = "float32",
) -> SourceKernel:  # fmt: skip
    """Depthwise convolution of ``n`` images by ``multiplier`` filters kh x kw a channel.

    The function takes data, weight, those of bias, residual, scale and shift that are asked for
    (`Epilogue`), and out. Filters are (channels, multiplier, kh, kw) where the layout is
    ``"NCHW"``, (kh, kw, channels, multiplier) where it is ``"NHWC"``.

    Args:
        padding: an int, a pair (y, x), or (top, left, bottom, right).
        activation: ``"none"``, ``"relu"``, ``"relu6"``, ``"silu"``, ``"gelu"`` or
            ``"gelu_tanh"``.
        dtype: of all arrays: ``"float32"``, ``"float16"`` or ``"bfloat16"``; sums are in float32.
            Of ``"int8"`` the result is ``"int32"``, without an epilogue.
    """
    epilogue = Epilogue(bias, residual, affine, activation)
    moves = stride, padding, dilation
    shape = _depthwise(n, h, w, channels, multiplier, (kh, kw), moves, epilogue, layout, dtype)
    return tunable(window_cuda, shape, "cuda")


@template("depthwise_conv2d.cpu")
def depthwise_conv2d_cpu(
    n: int, h: int, w: int, channels: int, multiplier: int, kh: int, kw: int,
    stride: Extents = 1, padding: Extents = 0, bias: bool = False, activation: str = "none",
    residual: bool = False, affine: bool = False, dilation: Extents = 1, layout: str = "NCHW",
) -> SourceKernel:  # fmt: skip
    """Convolve as ``depthwise_conv2d.cuda`` does, on a CPU: NCHW."""
    epilogue = Epilogue(bias, residual, affine, activation)
    moves = stride, padding, dilation
    shape = _depthwise(n, h, w, channels, multiplier, (kh, kw), moves, epilogue, layout)
    window_cpu.check(shape)
    return tunable(window_cpu, shape, "llvm")


def _depthwise(
    n: int, h: int, w: int, channels: int, multiplier: int, size: tuple[int, int],
    moves: tuple[Extents, Extents, Extents], epilogue: Epilogue, layout: str,
    dtype: str = "float32",
) -> Depthwise:  # fmt: skip
    """Return a shape; ``moves`` are stride, padding and dilation."""
    owner, (stride, padding, dilation) = Depthwise.owner, moves
    window = Window(size, two(owner, stride), four(owner, padding), two(owner, dilation))
    return Depthwise(n, h, w, channels, window, layout, multiplier, epilogue, dtype=dtype)


@template("pool2d.cuda")
def pool2d_cuda(
    kind: str, n: int, h: int, w: int, channels: int, size: Extents,
    stride: Extents = 1, padding: Extents = 0, dilation: Extents = 1,
    count_padding: bool = False, layout: str = "NCHW", dtype: str = "float32",
) -> SourceKernel:  # fmt: skip
    """Max (``kind="max"``) or average (``"avg"``) pooling of images.

    Args:
        padding: an int, a pair (y, x), or (top, left, bottom, right).
        count_padding: whether an average divides by all elements of a window, not only by those
            inside the image.
        dtype: ``"float32"``, ``"float16"`` or ``"bfloat16"``, whose sums are in float32, or
            ``"int8"`` or ``"uint8"``, whose averages are rounded to the nearest, halves to even.
    """
    window = _pooled(size, stride, padding, dilation)
    shape = Pool(n, h, w, channels, window, layout, kind, count_padding, dtype=dtype)
    return tunable(window_cuda, shape, "cuda")


@template("pool2d.cpu")
def pool2d_cpu(
    kind: str, n: int, h: int, w: int, channels: int, size: Extents,
    stride: Extents = 1, padding: Extents = 0, dilation: Extents = 1,
    count_padding: bool = False, layout: str = "NCHW", dtype: str = "float32",
) -> SourceKernel:  # fmt: skip
    """Pool as ``pool2d.cuda`` does, on a CPU: NCHW only.

    Args:
        dtype: ``"float32"``; of maxima also ``"int8"`` and ``"uint8"``.
    """
    window = _pooled(size, stride, padding, dilation)
    if dtype != "float32":
        images = n, h, w, channels, window, layout, kind, count_padding
        return tunable(max_pool_bytes, max_pool_bytes.BytePool(*images, dtype=dtype), "llvm")
    shape = Pool(n, h, w, channels, window, layout, kind, count_padding)
    window_cpu.check(shape)
    return tunable(window_cpu, shape, "llvm")


def _pooled(size: Extents, stride: Extents, padding: Extents, dilation: Extents) -> Window:
    owner = Pool.owner
    return Window(two(owner, size), two(owner, stride), four(owner, padding), two(owner, dilation))


@template("conv2d_nhwc.cuda")
def conv2d_nhwc_cuda(
    n: int, h: int, w: int, co: int, ci: int, kh: int, kw: int,
    stride: Extents = 1, padding: Extents = 0, bias: bool = False, activation: str = "none",
    residual: bool = False, affine: bool = False, dilation: Extents = 1, dtype: str = "float32",
    groups: int = 1,
) -> SourceKernel:  # fmt: skip
    """Convolve ``n`` NHWC images of ``ci`` channels, h x w, by ``co`` filters (kh, kw, ci, co).

    The function takes data, weight, those of bias, residual, scale and shift that are asked for
    (`Epilogue`), and out, all of one type: ``"float32"``, or ``"float16"`` or ``"bfloat16"``,
    which run on tensor cores (sm_80 and later) with sums in float32, odd numbers of channels on
    padded copies.
    With ``"tf32"`` arrays are float32, and tensor cores multiply them after rounding to 11 bits;
    those in groups on sm_90 may run as sums of two bfloat16, with errors up to 2^-16 of each
    product, also of integers of 9 to 11 bits, of which TF32 has none.

    Args:
        padding: an int, a pair (y, x), or (top, left, bottom, right).
        activation: ``"none"``, ``"relu"``, ``"relu6"``, ``"silu"``, ``"gelu"`` or
            ``"gelu_tanh"``.
        groups: of channels; the filters of a group, (kh, kw, ci / groups, co), read only its
            inputs.
    """
    owner = conv2d_nhwc.OWNER
    if dtype not in ("float32", *HALVES, TF32):
        raise TemplateError(
            f"{owner}: dtype must be float32, float16, bfloat16 or tf32, got {dtype!r}"
        )
    window = Window((kh, kw), two(owner, stride), four(owner, padding), two(owner, dilation))
    epilogue = Epilogue(bias, residual, affine, activation)
    shape = conv2d_nhwc.Conv2dNhwc(n, h, w, co, ci, window, dtype, epilogue, groups)
    if shape.pointwise is None and _is_depthwise(shape):
        alone = Depthwise(n, h, w, ci, window, "NHWC", co // ci, epilogue, dtype=stored(dtype))
        return _in_place_of(shape, tunable(window_cuda, alone, "cuda"))
    return _in_place_of(shape, tunable(*family_of_nhwc(shape), "cuda"))


def family_of_nhwc(shape: conv2d_nhwc.Conv2dNhwc) -> tuple[Any, Any]:
    """Return the kernels of a convolution that is not depthwise, and the shape they take."""
    target = Target.current() or Target("cuda")
    family, of = _family_and_shape(shape, target)
    if conv2d_narrow.offered(shape, family, of, get_config()):
        return conv2d_narrow.with_rows(shape, family, of, target), shape
    return family, of


def _family_and_shape(shape: conv2d_nhwc.Conv2dNhwc, target: Target) -> tuple[Any, Any]:
    """Return the kernels of a convolution by its type and channels, and the shape they take."""
    if shape.pointwise is not None:
        return family_of_product("conv2d_nhwc.cuda", shape.pointwise, (shape.dtype,))
    if shape.dtype == "float32":
        return conv2d_nhwc_float.family_of(shape, target, get_config()), shape
    if shape.groups > 1:
        return conv2d_in_groups.family_of(shape, get_config(), target)
    if conv2d_few_filters.offered(shape) and not conv2d_few_filters.chosen_before(get_config()):
        return conv2d_few_filters, shape
    old = gemm_half.chosen_before(get_config())
    if not old and gemm_transposed.is_needed(shape, target):
        return gemm_transposed, shape
    if conv2d_padded.is_needed(shape) or (not old and conv2d_padded.gains(shape, target)):
        return _on_copies(shape, target), shape
    return tensor_core_family(shape), shape


def conv2d_channels_first_cuda(shape: conv2d_nhwc.Conv2dNhwc) -> SourceKernel:
    """Return the kernel now chosen of NCHW images of 16-bit floats, given as of NHWC ones."""
    arguments = conv2d_channels_first.arguments(shape)
    target = Target.current() or Target("cuda")
    if _is_depthwise(shape):
        images, filters = (shape.images, shape.h, shape.w, shape.ci), shape.co // shape.ci
        alone = Depthwise(*images, shape.window, "NCHW", filters, dtype=shape.dtype)
        made = _with_arguments(arguments, tunable(window_cuda, alone, "cuda"))
        return replace(made, reference=conv2d_channels_first.reference(shape))
    if shape.pointwise is not None:
        product = conv2d_channels_first.product_of(shape)
        family, _ = family_of_product("conv2d_nchw.cuda", product, HALVES)
        # Products of all images gain by copies as one does of their columns, with rows as odd.
        columns = (product.batch - 1) * gemm_padded.row_of_copy(product.n) + product.n
        one = replace(product, n=columns, batch=1, shared="")
        if gemm_padded.gains(one, target):
            family = gemm_padded.Padded(tensor_core_family(gemm_padded.padded(product)))
        space = conv2d_nchw_families.of_products(shape, family, product, target)
        return tunable(space, shape, "cuda")
    padded = conv2d_channels_first.padded(shape)
    family, of = family_of_nhwc(padded)
    between = conv2d_channels_first.ChannelsFirst.between(shape, padded, of)
    space = conv2d_nchw_families.of_windows(shape, family, between, target)
    return tunable(space, shape, "cuda")


def _is_depthwise(shape: conv2d_nhwc.Conv2dNhwc) -> bool:
    """Return whether to convolve each channel alone, as filters and bounds of sizes allow it."""
    sizes = shape.arguments()[0].shape, shape.arguments()[-1].shape
    old = window_cuda.chosen_as_groups(get_config())
    return shape.groups == shape.ci and max(map(math.prod, sizes)) <= INT32_MAX and not old


def _in_place_of(shape: conv2d_nhwc.Conv2dNhwc, made: SourceKernel) -> SourceKernel:
    """Return a kernel of the same arrays in other shapes as one of this convolution."""
    return replace(_with_arguments(shape.arguments(), made), reference=shape.reference())


def _with_arguments(arguments: Sequence[Argument], made: SourceKernel) -> SourceKernel:
    """Return a kernel with the shapes of these arguments."""
    args = [replace(one, shape=each.shape) for one, each in zip(made.args, arguments, strict=True)]
    return replace(made, args=args)


def _on_copies(shape: conv2d_nhwc.Conv2dNhwc, target: Target) -> Any:
    """Return the kernels on padded copies, beside those without if these may be as fast."""
    copied = conv2d_padded.Padded(tensor_core_family(conv2d_padded.copied(shape, 1)))
    if not conv2d_padded.suits_words(shape):
        return copied
    untuned = int(conv2d_padded.is_faster_by_words(shape, target))
    either = Alternatives((copied, cast(Any, gemm_mma)), untuned)
    return either.chosen_alone(shape, get_config()) or either


@template("winograd_conv2d.cuda")
def winograd_conv2d_cuda(
    n: int, h: int, w: int, co: int, ci: int, tile: int = 4, padding: Extents = 1,
    bias: bool = False, activation: str = "none", residual: bool = False, affine: bool = False,
    layout: str = "NCHW", kept: bool = False, shift: bool = False,
) -> SourceKernel:  # fmt: skip
    """Convolve ``n`` images by ``co`` filters of 3x3 with stride 1, float32, by Winograd's method.

    The function takes data, filters as `winograd_cuda.transformed_filters` makes them, those of
    bias, residual, scale and shift that are asked for (`Epilogue`), and out. Results differ from
    those of plain sums by rounding, with larger tiles more: about 1e-6 and 1e-5 of them.

    Args:
        tile: 2 or 4: an output tile is ``tile`` by ``tile`` pixels.
        padding: an int, a pair (y, x), or (top, left, bottom, right).
        activation: ``"none"``, ``"relu"``, ``"relu6"``, ``"silu"``, ``"gelu"`` or
            ``"gelu_tanh"``.
        kept: whether the sum before scale and shift is written too, to an array before out.
        shift: whether a shift follows without a scale.
    """
    epilogue = Epilogue(bias, residual, affine, activation, kept=kept, shift=shift)
    sides = four(winograd_cuda.OWNER, padding)
    shape = winograd_cuda.Winograd(n, h, w, co, ci, tile, sides, layout, epilogue)
    return tunable(winograd_cuda, shape, "cuda")


@template("winograd_conv2d.cpu")
def winograd_conv2d_cpu(
    n: int, h: int, w: int, co: int, ci: int, tile: int = 4, padding: Extents = 1,
    bias: bool = False, activation: str = "none", residual: bool = False, affine: bool = False,
) -> SourceKernel:  # fmt: skip
    """Convolve as ``winograd_conv2d.cuda`` does, on a CPU: NCHW, and no activation but a ReLU."""
    epilogue = Epilogue(bias, residual, affine, activation)
    sides = four(winograd_cuda.OWNER, padding)
    shape = winograd_cpu.Winograd(n, h, w, co, ci, tile, sides, "NCHW", epilogue)
    winograd_cpu.check(shape)
    return tunable(winograd_cpu, shape, "llvm")
