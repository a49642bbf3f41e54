"""Convolutions NCHW of float32: which kernels run a shape.

`conv2d_bf16x3`, `conv2d_im2col` and, of pointwise layers, `conv2d_pointwise` multiply on tensor
cores, `conv2d_cuda` and, of short sums, `conv2d_small_k` by ``fmaf``. Estimates choose, as they
choose among the tiles of each.
"""

from __future__ import annotations

from collections.abc import Container
from dataclasses import replace
from types import ModuleType

from autotune import Target

from ..products.gemm_wgmma import has_wgmma
from . import conv2d_bf16x3, conv2d_cuda, conv2d_im2col, conv2d_pointwise, conv2d_small_k
from .conv2d_shape import Conv2d

# A knob that none of those behind it has: by it a configuration of a log is known.
KNOBS = {
    "channels": conv2d_cuda, "swapped": conv2d_pointwise, "ahead": conv2d_bf16x3,
    "in_turn": conv2d_im2col, "filters": conv2d_small_k,
}  # fmt: skip


def family_of(
    shape: Conv2d, target: Target, knobs: Container[str], fma: bool = False
) -> ModuleType:
    """Return the module of the kernels that a configuration is of, or, of none, the fastest.

    Args:
        knobs: names of the knobs that were chosen, if any.
        fma: whether to multiply by ``fmaf`` only.
    """
    known = next((family for knob, family in KNOBS.items() if knob in knobs), None)
    if known or fma:
        return known or conv2d_cuda
    return _fastest(shape, target)


def _fastest(shape: Conv2d, target: Target) -> ModuleType:
    """Return the family whose untuned choice takes the fewest cycles by its estimate."""
    if not has_wgmma(target):
        return conv2d_cuda
    cycles: dict[ModuleType, float] = {
        family: family.untuned_cycles(shape.alone, target)
        for family in (conv2d_bf16x3, conv2d_cuda)
    }
    if conv2d_small_k.offered(shape):
        cycles[conv2d_small_k] = conv2d_small_k.untuned_cycles(shape.alone, target)
    if conv2d_pointwise.offered(shape, target):
        cycles[conv2d_pointwise] = conv2d_pointwise.untuned_cycles(shape.alone, target)
    if conv2d_im2col.offered(shape, target):
        # For a bias all of the matrix is written, and a K tile more is multiplied.
        whole = replace(shape.alone, bias=shape.bias and shape.taps == 1)
        cycles[conv2d_im2col] = conv2d_im2col.untuned_cycles(whole, target)
    return min(cycles, key=lambda family: cycles[family])
