"""Registers the source templates of layers of 8-bit integers for a CPU."""

from __future__ import annotations

from collections.abc import Sequence

from autotune import SourceKernel

from .arguments import template
from .convolutions import conv2d_int8_cpu as conv2d_int8_family
from .convolutions.conv2d_int8_cpu import IntegerConv2d
from .convolutions.window_shape import four, two
from .products import gemm_int8_cpu as gemm_int8_family
from .products.gemm_int8_cpu import IntegerGemm
from .quantised import MOST, Requantisation
from .source import tunable

Extents = int | Sequence[int]


@template("conv2d_int8.cpu")
def conv2d_int8_cpu(
    n: int, h: int, w: int, co: int, ci: int, kh: int, kw: int, stride: Extents = 1,
    padding: Extents = 0, dilation: Extents = 1, groups: int = 1, dtype: str = "int8",
    zero: int = 0, out_dtype: str = "float32", out_zero: int = 0, low: float = -MOST,
    high: float = MOST,
) -> SourceKernel:  # fmt: skip
    """Convolve images NCHW of 8-bit integers by int8 filters, on a CPU.

    The function takes data, weight (co, ci / groups, kh, kw), and of each filter the sum of its
    weights (int32), a scale and a shift; and out, which becomes
    ``sum((data - zero) * weight) * scale + shift`` within the limits, rounded to the nearest if it
    is a whole number, plus ``out_zero``, and within its type. Images are padded with ``zero``.
    Sums have 32 bits: more than 65793 products for a result are refused.

    Args:
        padding: an int, a pair (y, x), or (top, left, bottom, right).
        dtype: ``"int8"`` or ``"uint8"``.
        out_dtype: ``"int8"``, ``"uint8"`` or ``"float32"``.
    """
    owner = conv2d_int8_family.OWNER
    top, left, bottom, right = four(owner, padding)
    end = Requantisation(dtype, zero, out_dtype, out_zero, low, high)
    shape = IntegerConv2d(
        n, h, w, co, ci, kh, kw, two(owner, stride), ((top, bottom), (left, right)),
        two(owner, dilation), groups, end,
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
