"""Registers the source templates of layers of 8-bit integers."""

from __future__ import annotations

from collections.abc import Sequence

from autotune import SourceKernel, Target, get_config
from autotune.errors import TemplateError

from .alternatives import Alternatives, Family
from .arguments import template
from .convolutions import conv2d_int8 as conv2d_int8_nhwc
from .convolutions import conv2d_int8_cpu as conv2d_int8_family
from .convolutions import conv2d_int8_planes, conv2d_int8_tma, conv2d_int8_words
from .convolutions.conv2d_int8 import IntegerConv2dNhwc
from .convolutions.conv2d_int8_cpu import IntegerConv2d
from .convolutions.window_shape import Window, four, two
from .products import gemm_int8_cpu as gemm_int8_family
from .products import matvec_int8
from .products.gemm_int8_cpu import IntegerGemm
from .quantised import MOST, Requantisation, Residual
from .source import tunable

Extents = int | Sequence[int]


def _residual(
    owner: str, dtype: str, zero: int, scales: tuple[float, float], low: float, high: float
) -> Residual | None:
    """Return what is added, if its type is named; else refuse numbers that say more of it."""
    if dtype:
        return Residual(dtype, zero, scales, low, high)
    numbers = zero, scales, low, high
    if numbers != (0, (1.0, 1.0), -128.0, 127.0):
        raise TemplateError(
            f"{owner}: scales, limits and a zero point are those of a residual, got {numbers} and "
            "no residual: name its type"
        )
    return None


@template("conv2d_int8.cpu")
def conv2d_int8_cpu(
    n: int, h: int, w: int, co: int, ci: int, kh: int, kw: int, stride: Extents = 1,
    padding: Extents = 0, dilation: Extents = 1, groups: int = 1, dtype: str = "int8",
    zero: int = 0, out_dtype: str = "float32", out_zero: int = 0, low: float = -MOST,
    high: float = MOST, packed: bool = False, residual: str = "", residual_zero: int = 0,
    sum_scale: float = 1.0, residual_scale: float = 1.0, sum_low: float = -128.0,
    sum_high: float = 127.0,
) -> SourceKernel:  # fmt: skip
    """Convolve images NCHW of 8-bit integers by int8 filters, on a CPU.

    The function takes data, weight (co, ci / groups, kh, kw), and of each filter the sum of its
    weights (int32), a scale and a shift; and out, which becomes
    ``sum((data - zero) * weight) * scale + shift`` within the limits, rounded to the nearest if it
    is a whole number, plus ``out_zero``, and within its type. Images are padded with ``zero``.
    Sums have 32 bits: more than 65793 products for a result are refused.

    With a residual, an array like out before it, sums are limited to ``sum_low`` .. ``sum_high``
    and rounded, and ``sum * sum_scale + (residual - residual_zero) * residual_scale`` is limited,
    rounded and moved by ``out_zero``.

    Args:
        padding: an int, a pair (y, x), or (top, left, bottom, right).
        dtype: ``"int8"`` or ``"uint8"``.
        out_dtype: ``"int8"``, ``"uint8"`` or ``"float32"``.
        packed: whether weights are laid out by `autotune.graph.ops.PackedFilters` already; else
            each call does that first.
        residual: its type, ``"int8"`` or ``"uint8"``; by default there is none.
    """
    owner = conv2d_int8_family.OWNER
    top, left, bottom, right = four(owner, padding)
    added = _residual(
        owner, residual, residual_zero, (sum_scale, residual_scale), sum_low, sum_high
    )
    end = Requantisation(dtype, zero, out_dtype, out_zero, low, high, added)
    shape = IntegerConv2d(
        n, h, w, co, ci, kh, kw, two(owner, stride), ((top, bottom), (left, right)),
        two(owner, dilation), groups, end, packed,
    )  # fmt: skip
    return tunable(conv2d_int8_family, shape, "llvm")


@template("gemm_int8.cpu")
def gemm_int8_cpu(
    m: int, n: int, k: int, dtype: str = "int8", zero: int = 0, out_dtype: str = "float32",
    out_zero: int = 0, low: float = -MOST, high: float = MOST,
) -> SourceKernel:  # fmt: skip
    """Multiply rows of 8-bit integers by rows of int8 weights, on a CPU.

    The function takes a (m, k), weights (n, k), and of each of their rows the sum (int32), a scale
    and a shift; and c (m, n): see `conv2d_int8_cpu`.
    """
    end = Requantisation(dtype, zero, out_dtype, out_zero, low, high)
    return tunable(gemm_int8_family, IntegerGemm(m, n, k, end), "llvm")


@template("conv2d_int8.cuda")
def conv2d_int8_cuda(
    n: int, h: int, w: int, co: int, ci: int, kh: int, kw: int, stride: Extents = 1,
    padding: Extents = 0, dilation: Extents = 1, groups: int = 1, dtype: str = "int8",
    zero: int = 0, out_dtype: str = "float32", out_zero: int = 0, low: float = -MOST,
    high: float = MOST, residual: str = "", residual_zero: int = 0, sum_scale: float = 1.0,
    residual_scale: float = 1.0, sum_low: float = -128.0, sum_high: float = 127.0,
) -> SourceKernel:  # fmt: skip
    """Convolve images NHWC of 8-bit integers by int8 filters OHWI, on a GPU (sm_80).

    Arguments are those of `conv2d_int8_cpu` but for these layouts: data (n, h, w, ci), weight
    (co, kh, kw, ci / groups), sums of weights, scale, shift, and out (n, oh, ow, co). Tensor cores
    multiply (`conv2d_int8`), unless each channel has one filter (`conv2d_int8_planes`).

    With a residual, an array like out before it, sums are limited to ``sum_low`` .. ``sum_high``
    and rounded, and ``sum * sum_scale + (residual - residual_zero) * residual_scale`` is limited,
    rounded and moved by ``out_zero``.

    Args:
        residual: its type, ``"int8"`` or ``"uint8"``; by default there is none.
    """
    owner = conv2d_int8_nhwc.OWNER
    window = Window((kh, kw), two(owner, stride), four(owner, padding), two(owner, dilation))
    added = _residual(
        owner, residual, residual_zero, (sum_scale, residual_scale), sum_low, sum_high
    )
    end = Requantisation(dtype, zero, out_dtype, out_zero, low, high, added)
    shape = IntegerConv2dNhwc(n, h, w, co, ci, window, groups, end)
    if conv2d_int8_planes.suits(shape):
        return tunable(conv2d_int8_planes, shape, "cuda")
    return _on_tensor_cores(shape)


@template("gemm_int8.cuda")
def gemm_int8_cuda(
    m: int, n: int, k: int, dtype: str = "int8", zero: int = 0, out_dtype: str = "float32",
    out_zero: int = 0, low: float = -MOST, high: float = MOST,
) -> SourceKernel:  # fmt: skip
    """Multiply rows of 8-bit integers by rows of int8 weights, on a GPU (sm_80).

    The function takes a (m, k), weights (n, k), and of each of their rows the sum (int32), a scale
    and a shift; and c (m, n): see `conv2d_int8_cpu`. `conv2d_int8` computes it as the convolution
    of images of one pixel.
    """
    end = Requantisation(dtype, zero, out_dtype, out_zero, low, high)
    shape = IntegerConv2dNhwc(m, 1, 1, n, k, Window((1, 1)), 1, end, rows=True)
    if matvec_int8.suits(shape):
        return _either(matvec_int8, 1, shape)
    return _on_tensor_cores(shape)


def _on_tensor_cores(shape: IntegerConv2dNhwc) -> SourceKernel:
    """Return the kernel now chosen, of those by TMA where they compute a shape."""
    target = Target.current() or Target("cuda")
    if conv2d_int8_words.offered(shape, target):
        return _either(conv2d_int8_words, 1, shape)
    if not conv2d_int8_tma.offered(shape, target):
        return tunable(conv2d_int8_nhwc, shape, "cuda")
    return _either(conv2d_int8_tma, int(conv2d_int8_tma.wins(shape, target)), shape)


def _either(other: Family, untuned: int, shape: IntegerConv2dNhwc) -> SourceKernel:
    """Return the kernel now chosen, of `conv2d_int8` or another family, in one space."""
    families = Alternatives((conv2d_int8_nhwc, other), untuned)
    return tunable(families.chosen_alone(shape, get_config()) or families, shape, "cuda")
