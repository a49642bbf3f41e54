"""NHWC convolutions in groups on tensor cores: which kernels run a shape.

`gemm_tma` multiplies the groups as one product, tile by tile, `conv2d_groups` keeps the filters of
a group in the registers of warps, `gemm_mma` multiplies group by group, and so does
`gemm_bf16x3_fused`, floats as TF32. Estimates choose.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Mapping
from functools import lru_cache
from types import ModuleType

from autotune import Target

from ..products import gemm_bf16x3_fused, gemm_mma, gemm_tma
from ..products.gemm_half import chosen_before
from ..products.gemm_shape import TF32
from ..products.gemm_tma_form import KNOB
from ..products.gemm_wgmma import has_wgmma
from . import conv2d_groups, conv2d_padded
from .conv2d_nhwc import AcrossGroups, Conv2dNhwc
from .window_shape import INT32_MAX

# Cycles of the estimates in a microsecond, as measured on an H100 for 22 layers of 16-bit floats
# in groups of 8 to 112 channels: by TMA of joined groups and of others, by filters in registers of
# groups of 8, 16 and 32 channels and of others, and by ``mma.sync``, whose estimate knows of no
# launch: it has to be ahead by a tenth, and was never ahead for 8, 16 and 32 channels. They were
# measured before the channels of a next group were cleared (`gemm_tma.cu`).
TMA_JOINED, TMA_RATE = 1550, 1850
EVEN_CHANNELS, EVEN_RATE, GROUPS_RATE = (8, 16, 32), 1450, 1000
MMA_RATE, AHEAD = 870, 0.9
# Part of the estimate of sums of two bfloat16 (`gemm_bf16x3_fused`) that is compared to that of
# ``mma.sync``, of floats as TF32: of 12 drawn layers on an H200 the faster one is chosen for all.
FUSED_SHARE = 0.9


def family_of(
    shape: Conv2dNhwc, knobs: Container[str], target: Target
) -> tuple[ModuleType | conv2d_padded.Padded, Conv2dNhwc]:
    """Return the kernels that knobs were chosen for, or the fastest, and the shape they take."""
    if conv2d_padded.is_needed(shape):
        return conv2d_padded.Padded(gemm_mma), shape
    across = AcrossGroups.of(shape)
    family = _chosen(knobs) or _fastest(shape, across, target)
    return family, across if family is gemm_tma else shape


def _chosen(knobs: Container[str]) -> ModuleType | None:
    """Return the family that knobs are of."""
    if conv2d_groups.chosen(knobs):
        return conv2d_groups
    if KNOB in knobs:
        return gemm_tma
    if "swapped" in knobs:
        return gemm_bf16x3_fused
    return gemm_mma if chosen_before(knobs) else None


def _fastest(shape: Conv2dNhwc, across: AcrossGroups, target: Target) -> ModuleType:
    """Return the family whose untuned choice takes the shortest time by its estimate."""
    by_tma = gemm_tma.offered(across, target)
    if shape.dtype == TF32:
        if by_tma and gemm_tma.beats_mma_as_tf32(shape):
            return gemm_tma
        return gemm_bf16x3_fused if _gains_by_pieces(shape, target) else gemm_mma
    times: dict[ModuleType, float] = {}
    if by_tma:
        rate = TMA_JOINED if across.joined > 1 else TMA_RATE
        times[gemm_tma] = _cycles(gemm_tma, across, target) / rate
    if conv2d_groups.offered(shape):
        rate = EVEN_RATE if shape.a_run in EVEN_CHANNELS else GROUPS_RATE
        times[conv2d_groups] = _cycles(conv2d_groups, shape, target) / rate
    if not times:
        return gemm_mma
    least = min(times, key=lambda family: times[family])
    if shape.a_run in EVEN_CHANNELS:
        return least
    alone = _cycles(gemm_mma, shape, target) / MMA_RATE
    return gemm_mma if alone < AHEAD * times[least] else least


@lru_cache(maxsize=1024)
def _gains_by_pieces(shape: Conv2dNhwc, target: Target) -> bool:
    """Return whether floats as TF32 are multiplied faster as sums of two bfloat16."""
    if not has_wgmma(target) or shape.h * shape.w * shape.ci > INT32_MAX:
        return False
    pieces = FUSED_SHARE * _cycles(gemm_bf16x3_fused, shape, target)
    return pieces < _cycles(gemm_mma, shape, target)


def _cycles(family: ModuleType, shape: Conv2dNhwc, target: Target) -> float:
    """Return the estimate of the choice of a family where nothing was tuned."""
    estimate: Callable[[Conv2dNhwc, Mapping[str, int], Target], float] = family.estimate
    return float(estimate(shape, family.default_choice(shape, target), target))
