"""Convolutions NCHW of float32: which kernels run a shape.

`conv2d_bf16x3` and `conv2d_im2col` multiply on tensor cores, `conv2d_cuda` by ``fmaf``. Estimates
choose, as they choose among the tiles of each.
"""

from __future__ import annotations

from collections.abc import Container
from dataclasses import replace
from types import ModuleType

from autotune import Target

from . import conv2d_bf16x3, conv2d_cuda, conv2d_im2col
from .conv2d_shape import Conv2d

# Makes the estimate of im2col comparable to that of `conv2d_bf16x3`: so the faster of both was
# chosen for all of 30 lines and images on an H200.
IM2COL_SHARE = 0.87
# The same of pointwise layers, whose windows `conv2d_bf16x3` splits again for every 64 filters.
POINTWISE_SHARE = 0.75
# A knob that no other of these families has: by it a configuration of a log is known.
KNOBS = {"channels": conv2d_cuda, "ahead": conv2d_bf16x3, "in_turn": conv2d_im2col}


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
    cycles: dict[ModuleType, float] = {}
    if conv2d_bf16x3.offered(shape, target):
        cycles[conv2d_bf16x3] = conv2d_bf16x3.untuned_cycles(shape.alone, target)
    if conv2d_im2col.offered(shape, target):
        # For a bias all of the matrix is written, and a K tile more is multiplied.
        pointwise = shape.taps == 1
        whole = replace(shape.alone, bias=shape.bias and pointwise)
        share = POINTWISE_SHARE if pointwise else IM2COL_SHARE
        cycles[conv2d_im2col] = share * conv2d_im2col.untuned_cycles(whole, target)
    return min(cycles, key=lambda family: cycles[family], default=conv2d_cuda)
