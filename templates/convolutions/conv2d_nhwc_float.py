"""Convolutions NHWC of float32: which kernels run a shape.

`gemm_cuda` multiplies by ``fmaf``, and `gemm_bf16x3_fused` on tensor cores: both gather windows
(implicit GEMM). Estimates choose, as they choose among the tiles of each, and a space has both
where either may be the faster one.
"""

from __future__ import annotations

from collections.abc import Container
from functools import lru_cache
from types import ModuleType
from typing import Any, cast

from autotune import Target

from ..alternatives import KNOB, Alternatives, Family, Near
from ..products import gemm_bf16x3_fused, gemm_cuda
from ..products.gemm_wgmma import has_wgmma
from .conv2d_nhwc import Conv2dNhwc
from .window_shape import INT32_MAX

# The families by the value that selects them in a space of both, with a knob that the other lacks.
FAMILIES = (("threads_m", gemm_cuda), ("swapped", gemm_bf16x3_fused))
# How many times the least estimate the other one may be in a space of both.
SHARE = 2.0
# By what the estimate of `gemm_cuda` is multiplied before it is compared. Of 26 drawn layers on an
# H200 the family of the least product took 1.002 times as long as the faster one, with 1.0 1.05.
FMAF_SHARE = 1.3


def family_of(shape: Conv2dNhwc, target: Target, knobs: Container[str]) -> Any:
    """Return the kernels that a configuration is of, or, of none, a space of all good families.

    Args:
        knobs: names of the knobs that were chosen, if any.
    """
    if KNOB not in knobs:
        known = next((family for knob, family in FAMILIES if knob in knobs), None)
        if known is not None:
            return known
    cycles = _cycles(shape, target)
    best = min(cycles, key=lambda family: cycles[family])
    if len(cycles) == 1 or max(cycles.values()) > SHARE * cycles[best]:
        return best
    near = Near(cast(Family, gemm_cuda), 1, (), target)
    families = (near, cast(Family, gemm_bf16x3_fused))
    return Alternatives(families, int(best is gemm_bf16x3_fused))


@lru_cache(maxsize=1024)
def _cycles(shape: Conv2dNhwc, target: Target) -> dict[ModuleType, float]:
    """Return the estimates of the untuned choices of the families that serve a shape."""
    families = [gemm_cuda]
    if has_wgmma(target) and shape.h * shape.w * shape.ci <= INT32_MAX:
        families.append(gemm_bf16x3_fused)
    cycles = {
        family: float(family.estimate(shape, family.default_choice(shape, target), target))
        for family in families
    }
    return cycles | {gemm_cuda: FMAF_SHARE * cycles[gemm_cuda]}
