"""NCHW convolutions of 16-bit floats: which kernels run a shape, in one space.

`conv2d_nchw_half` reads images as they lie; `conv2d_nchw_tma` multiplies a copy NHWC of them and
writes planes. Pointwise layers also are a product for each image (`conv2d_channels_first`), and
windows run by kernels of NHWC images, between copies of images, filters and the result. Estimates
choose.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any, cast

from autotune import Target

from .. import common
from ..alternatives import Alternatives, Family
from . import conv2d_narrow, conv2d_nchw_half
from .conv2d_channels_first import VECTOR, ChannelsFirst, Of
from .conv2d_nchw_tma import OF_IMAGES, OF_WINDOWS
from .conv2d_nhwc import Conv2dNhwc
from .via_conv2d import ViaConv2d

# The values of the knob that select `conv2d_nchw_half`, and `conv2d_nchw_tma` on copies of images
# and of windows: others may be alternatives themselves.
DIRECT, BY_TMA, BY_WINDOWS = 3, 4, 5
# Part of the estimate between copies that is compared with that without: 22 drawn layers took an
# H200 0.87 of it in the mean.
VIA_SHARE = 0.87
# And of those of windows by TMA behind a copy of the images, and of the windows: of 59 layers on
# an H200 those of the least product took 1.01 times as long as the fastest, with 0.95 of both
# 1.03.
TMA_SHARE, WINDOWS_SHARE = 0.83, 0.73
# Elements of windows of several taps from which on copies of them are slow where pixels are many.
MANY_WINDOWS = 2**23
# Cycles of a multiprocessor for a result of a product whose planes fill no vectors, and more of an
# odd one of many pixels, which estimates of products do not have: ten such layers took an H200
# 0.5 to 1.3 cycles a result more.
UNALIGNED, ODD, MANY_PIXELS = 0.6, 0.5, 128


def of_windows(shape: Conv2dNhwc, family: Any, between: ChannelsFirst, target: Target) -> Any:
    """Return the space of a family between copies, or of its alternatives, and of the others.

    Args:
        shape: the convolution, as one of NHWC images.
        family: of kernels of its copies.
        between: what they compute.
        target: the target.
    """
    cycles = VIA_SHARE * via_cycles(family, between, target)
    return _space(shape, family, lambda each: Of(ViaConv2d(each), between), cycles, target)


def of_products(shape: Conv2dNhwc, family: Any, product: Any, target: Target) -> Any:
    """Return the space of a family of products of pointwise layers, and of the others."""
    plane = product.n
    unaligned = UNALIGNED * (plane % VECTOR > 0) + ODD * (plane % 2) * (plane > MANY_PIXELS)
    written = unaligned * shape.m * shape.n / common.multiprocessors(target)
    cycles = conv2d_narrow.cycles(family_untuned(family), product, target) + written
    return _space(shape, family, lambda each: Of(each, product), cycles, target)


def _space(
    shape: Conv2dNhwc, family: Any, view: Callable[[Any], Of], cycles: float, target: Target
) -> Any:
    """Return the space of views of a family, or of its alternatives, and of the other kernels."""
    several = isinstance(family, Alternatives)
    inner, numbers = (family.families, family.values) if several else ((family,), (0,))
    families = [cast(Family, view(each)) for each in inner]
    estimates = {family.untuned if several else 0: cycles}
    for number, (other, others) in others_of(shape, target).items():
        families, numbers = [*families, other], (*numbers, number)
        estimates[number] = others
    untuned = min(estimates, key=lambda number: estimates[number])
    return Alternatives(tuple(families), untuned, numbers) if len(families) > 1 else families[0]


def others_of(shape: Conv2dNhwc, target: Target) -> Mapping[int, tuple[Family, float]]:
    """Return the kernels of images as they lie, or of a copy, by the values that select them."""
    others = {}
    if conv2d_nchw_half.offered(shape, target) and shape.pointwise is None:
        cycles = conv2d_nchw_half.untuned_cycles(shape, target)
        others[DIRECT] = cast(Family, conv2d_nchw_half), cycles
    share = TMA_SHARE if shape.pointwise is None else 1.0
    by_tma_of = ((BY_TMA, OF_IMAGES, share), (BY_WINDOWS, OF_WINDOWS, WINDOWS_SHARE))
    for number, by_tma, part in by_tma_of:
        if by_tma.offered(shape, target):
            slow = by_tma.windows and not _suits_windows(shape)
            cycles = math.inf if slow else part * by_tma.untuned_cycles(shape, target)
            others[number] = cast(Family, by_tma), cycles
    return others


def _suits_windows(shape: Conv2dNhwc) -> bool:
    """Return whether copies of windows are few: 38 MB of 168->456 by 3x3 took 20 us more."""
    few = shape.m <= 2 * shape.co or shape.m * shape.k <= MANY_WINDOWS
    return few or shape.window.taps == 1


def family_untuned(family: Any) -> Any:
    """Return the family, of alternatives, that is used where nothing was tuned."""
    if not isinstance(family, Alternatives):
        return family
    return family.families[family.values.index(family.untuned)]


def via_cycles(family: Any, between: ChannelsFirst, target: Target) -> float:
    """Return the estimate of the untuned choice of a family, with the copies around it."""
    of, family = between.of, family_untuned(family)
    if isinstance(family, conv2d_narrow.OfShape):
        family, of = family.family, family.of
    return conv2d_narrow.cycles(family, of, target) + between.copying_cycles(target)
