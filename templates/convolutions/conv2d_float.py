"""Convolutions NCHW of float32: which kernels run a shape.

`conv2d_bf16x3`, `conv2d_im2col` and, of pointwise layers and few filters, `conv2d_product`
multiply on tensor cores, `conv2d_cuda` and, of short sums, `conv2d_small_k` by ``fmaf``. Estimates
choose, as they choose among the tiles of each, and a space has all that may be the fastest.
"""

from __future__ import annotations

from collections.abc import Container
from dataclasses import replace
from types import ModuleType
from typing import Any, cast

from autotune import Target
from autotune.errors import TemplateError

from ..alternatives import KNOB, Alternatives, Family, Near
from ..products.gemm_wgmma import has_wgmma
from . import conv2d_bf16x3, conv2d_cuda, conv2d_im2col, conv2d_product, conv2d_small_k
from .conv2d_shape import OWNER, Conv2d, Planes

# The families by the value that selects them in a space of several, with a knob that none of those
# behind it has: by it a configuration is known that was logged when each had its own space.
FAMILIES = (
    ("channels", conv2d_cuda), ("swapped", conv2d_product), ("ahead", conv2d_bf16x3),
    ("in_turn", conv2d_im2col), ("filters", conv2d_small_k),
)  # fmt: skip
# Those that read and write planes of volumes in place.
IN_VOLUMES = (conv2d_cuda, conv2d_bf16x3, conv2d_small_k)
# How many times the least estimate one may be of which a space has the family. Estimates that
# compare families have errors of 13% to 22% (root mean squares), and of families that were chosen
# wrongly the fastest one was up to twice as fast.
SHARE = 2.0
# By what the estimate of `conv2d_cuda` is multiplied before it is compared. Of six drawn layers on
# an H200 that it changes three take 0.65 to 0.87 of the time before, the others 0.99 to 1.06.
FMAF_SHARE = 1.03
# Filters of a group that a grid has down, with as many a block as untuned choices have at least.
MOST_FILTERS = 64 * 65535
# Of the millions of choices of `conv2d_cuda` a space of several families has those next to its
# untuned one, where that runs two values to either side, with its unrolling, stages and clusters.
# So spaces stay small enough to be counted and searched.
KEPT = ("taps", "cluster", "stages")


def family_of(shape: Conv2d, target: Target, knobs: Container[str], fma: bool = False) -> Any:
    """Return the kernels that a configuration is of, or, of none, a space of all good families.

    Args:
        knobs: names of the knobs that were chosen, if any.
        fma: whether to multiply by ``fmaf`` only.

    Raises:
        TemplateError: there are more filters than kernels take.
    """
    if shape.co // shape.groups > MOST_FILTERS:
        raise TemplateError(
            f"{OWNER}: kernels take up to {MOST_FILTERS} filters of a group, got {shape}"
        )
    if KNOB not in knobs:
        known = known_by(knobs)
        if known or fma:
            return known or conv2d_cuda
    return _every_good(shape, target)


def known_by(knobs: Container[str]) -> ModuleType | None:
    """Return the family that knobs were chosen of in a space of its own, if any."""
    return next((family for knob, family in FAMILIES if knob in knobs), None)


def fastest(shape: Conv2d, target: Target) -> ModuleType:
    """Return the family whose untuned choice takes the fewest cycles by its estimate."""
    cycles = _cycles(shape, target)
    return min(cycles, key=lambda family: cycles[family])


def cycles(shape: Conv2d, target: Target) -> float:
    """Return the cycles of the fastest untuned choice by its estimate."""
    return min(_cycles(shape, target).values())


def _every_good(shape: Conv2d, target: Target) -> Any:
    """Return one space of all families that may be fastest, or the only one of them."""
    cycles = _cycles(shape, target)
    best = fastest(shape, target)
    good = [
        (number, family)
        for number, (_, family) in enumerate(FAMILIES)
        if family in cycles and (family is best or cycles[family] <= SHARE * cycles[best])
    ]
    if len(good) == 1:
        return best
    near = Near(cast(Family, conv2d_cuda), 2 if best is conv2d_cuda else 1, KEPT, target)
    families = (near if family is conv2d_cuda else cast(Family, family) for _, family in good)
    numbers = tuple(number for number, _ in good)
    untuned = next(number for number, family in good if family is best)
    return Alternatives(tuple(families), untuned, numbers)


def _cycles(shape: Conv2d, target: Target) -> dict[ModuleType, float]:
    """Return the estimates of the untuned choices of the families that serve a shape."""
    if not has_wgmma(target):
        return {conv2d_cuda: 0.0}
    alone = shape.alone
    cycles: dict[ModuleType, float] = {
        conv2d_bf16x3: conv2d_bf16x3.untuned_cycles(alone, target),
        conv2d_cuda: FMAF_SHARE * conv2d_cuda.untuned_cycles(alone, target),
    }
    if conv2d_small_k.offered(shape):
        cycles[conv2d_small_k] = conv2d_small_k.untuned_cycles(alone, target)
    if shape.planes != Planes():
        return cycles
    if conv2d_product.offered(shape, target):
        cycles[conv2d_product] = conv2d_product.untuned_cycles(alone, target)
    if conv2d_im2col.offered(shape, target):
        # For a bias all of the matrix is written, and a K tile more is multiplied.
        whole = replace(alone, bias=shape.bias and shape.taps == 1)
        cycles[conv2d_im2col] = conv2d_im2col.untuned_cycles(whole, target)
    return cycles
