"""NCHW convolutions of 16-bit floats: which kernels run a shape, in one space.

`conv2d_nchw_half` reads images as they lie; `conv2d_channels_first` transposes them for the
kernels of NHWC images. Estimates choose.
"""

from __future__ import annotations

from typing import Any, cast

from autotune import Target

from ..alternatives import Alternatives, Family
from . import conv2d_narrow, conv2d_nchw_half
from .conv2d_channels_first import ChannelsFirst, Of
from .conv2d_nhwc import Conv2dNhwc
from .via_conv2d import ViaConv2d

# The value of the knob that selects `conv2d_nchw_half`: others may be alternatives themselves.
DIRECT = 3
# Part of the estimate between copies that is compared with that without: 22 drawn layers took an
# H200 0.87 of it in the mean.
VIA_SHARE = 0.87


def either(shape: Conv2dNhwc, family: Any, between: ChannelsFirst, target: Target) -> Any:
    """Return the space of a family between copies, or of its alternatives, and without copies.

    Args:
        shape: the convolution, as one of NHWC images.
        family: of kernels of its copies.
        between: what they compute.
        target: the target.
    """
    inner = family.families if isinstance(family, Alternatives) else (family,)
    numbers = family.values if isinstance(family, Alternatives) else (0,)
    untuned = family.untuned if isinstance(family, Alternatives) else 0
    families = [cast(Family, Of(ViaConv2d(each), between)) for each in inner]
    if conv2d_nchw_half.offered(shape, target):
        families, numbers = [*families, cast(Family, conv2d_nchw_half)], (*numbers, DIRECT)
        if gains(shape, family, between, target):
            untuned = DIRECT
    return Alternatives(tuple(families), untuned, numbers) if len(families) > 1 else families[0]


def gains(shape: Conv2dNhwc, family: Any, between: ChannelsFirst, target: Target) -> bool:
    """Return whether a convolution is estimated to be faster without copies of its images."""
    direct = conv2d_nchw_half.untuned_cycles(shape, target)
    return direct < VIA_SHARE * via_cycles(family, between, target)


def via_cycles(family: Any, between: ChannelsFirst, target: Target) -> float:
    """Return the estimate of the untuned choice of a family, with the copies around it."""
    of = between.of
    if isinstance(family, Alternatives):
        family = family.families[family.values.index(family.untuned)]
    if isinstance(family, conv2d_narrow.OfShape):
        family, of = family.family, family.of
    return conv2d_narrow.cycles(family, of, target) + between.copying_cycles(target)
