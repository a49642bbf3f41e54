"""Products of floats as TF32: where kernels of float32 are faster.

Rows that are no multiple of 16 bytes cannot be loaded by TMA: they are copied first, or loaded by
copies of 4 bytes for ``mma.sync``. Kernels of float32 read them as they are, and split floats into
two or three of bfloat16 for tensor cores; their results are more exact than what TF32 asks for,
unless all floats have 11 bits and products of two pieces are left out (`gemm_bf16x3_fused`). With
short sums most of the time goes to results, and estimates choose.
"""

from __future__ import annotations

import math
from collections.abc import Container
from dataclasses import replace
from functools import lru_cache

from autotune import Target

from .. import common
from ..epilogue import Epilogue
from . import gemm_float, gemm_half, gemm_tma, gemm_tma_untuned, gemm_transposed
from .gemm_shape import TF32, Gemm
from .gemm_tma_form import KNOB, Form
from .gemm_wgmma import has_wgmma

# Terms of sums up to which ``mma.sync`` is slower: 150x577x16 nt, three pairs, took 4.0 us so and
# 2.7 as float32, 324x344x24 tn 2.3 and 1.9.
FEW_TERMS = 32
# Of the estimates by TMA what is comparable to those of kernels of float32: their share of short
# sums, cycles that a kernel before hides, since launches overlap, and those of copies that they
# hide; and the cycles of a multiprocessor for a result, more where rows are not aligned to sectors
# of 32 bytes, beyond what estimates by TMA have of it: in strips, and with swapped operands, while
# the L2 cache holds most results, and not. They are a fit to 32 products of short sums on an H200,
# with an error of 19%, and those of strips to 26 choices of six: 1864x6981x34 took 37.4 us so, and
# 29.1 as float32.
SHARE, OVERLAPPED, COPIES_OVERLAPPED = 0.84, 1080, 880
WRITTEN, NEAR_BYTES = 0.21, 45_000_000
UNALIGNED, FAR = 0.57, 1.4
UNALIGNED_SWAPPED, FAR_SWAPPED = 0.0, 0.84
# The same for odd rows in batches: 138 of 125x609x378 took an H200 149 us by TMA, 123 by kernels
# of float32, 20 of 500x301x250 with one b 21.6 and 27.3.
ODD_SWAPPED, ODD_FAR_SWAPPED = 0.7, 4.2


def runs_as_float32(shape: Gemm, target: Target, knobs: Container[str]) -> bool:
    """Return whether a product as TF32 runs by kernels of float32.

    Args:
        knobs: names of the knobs that were chosen, if any: these tell.
    """
    if shape.dtype != TF32 or not has_wgmma(target):
        return False
    if any(knob in knobs for knob in gemm_float.KNOBS):
        return True
    if "warps_m" in knobs:
        return False
    # By TMA accumulators start with the bias, which short sums do not hide.
    plain = replace(shape, epilogue=Epilogue(bias=shape.epilogue.bias))
    return _is_faster_as_float32(plain, target)


@lru_cache(maxsize=1024)
def _is_faster_as_float32(shape: Gemm, target: Target) -> bool:
    """Return whether kernels of float32 are faster than those by TMA, or than ``mma.sync``."""
    by_tma = _cycles_by_tma(shape, target)
    if by_tma is not None:
        return gemm_float.cycles(shape, target) < by_tma
    if shape.k <= FEW_TERMS:
        return True
    if gemm_tma.refusal(shape) is None:
        return False
    odd = shape.a_run % 4 > 0 or shape.b_run % 4 > 0
    return odd or shape.batch * shape.m * shape.n * shape.k > gemm_tma_untuned.TINY_FLOATS


def _cycles_by_tma(shape: Gemm, target: Target) -> float | None:
    """Return the cycles by TMA, comparable to those of float32; None where others run.

    Long sums of operands that TMA reads as they are, are not compared.
    """
    if gemm_transposed.is_needed(shape, target):
        choice = gemm_transposed.default_choice(shape, target)
    elif gemm_half.offered(shape, target):
        choice = gemm_half.default_choice(shape, target)
    else:
        return None
    copies = gemm_transposed.copies(shape, choice)
    if not gemm_half.by_boxes(choice) or (not copies and shape.k > gemm_half.SHORT_SUM):
        return None
    form = Form.of(choice[KNOB])
    results = shape.batch * shape.m * shape.n / common.multiprocessors(target)
    odd = shape.n % 2 > 0 and shape.batch > 1
    near = 4 * shape.batch * shape.m * shape.n <= NEAR_BYTES
    if not form.swapped:
        # Of rows that are no whole sectors some start at one.
        longer = (UNALIGNED if near else FAR) * (1 - math.gcd(shape.n, 8) / 8)
    elif near:
        longer = ODD_SWAPPED if odd else UNALIGNED_SWAPPED
    else:
        longer = ODD_FAR_SWAPPED if odd else FAR_SWAPPED
    longer = longer * (shape.n % 8 > 0)
    # Persistent kernels load and multiply meanwhile.
    writing = WRITTEN * results * (longer + (0.5 if form.persistent else 1.0))
    run = gemm_transposed.estimate(shape, choice, target)
    share = SHARE if shape.k <= gemm_half.SHORT_SUM else 1.0
    return share * run + writing - OVERLAPPED - COPIES_OVERLAPPED * (copies > 0)
