"""Products of float32: which kernels run a shape.

Six families multiply them, each where it is fastest: `matvec_cuda` few rows by a b stored as
[n, k], `matvec_across` one by a b stored as [k, n], `gemm_small_k` sums of few products,
`gemm_bf16x3` large products on tensor cores, `gemm_bf16x3_fused` those with long sums, few columns
or many matrices, and `gemm_cuda` all others. Their estimates choose, as they choose among the
tiles of each. They multiply products as TF32 too, where those of TF32 are slower (`gemm_tf32`).
"""

from __future__ import annotations

from collections.abc import Container
from dataclasses import replace
from functools import lru_cache
from types import ModuleType

from autotune import Target

from ..epilogue import Epilogue
from . import gemm_bf16x3, gemm_bf16x3_fused, gemm_cuda, gemm_small_k, matvec_across, matvec_cuda
from .gemm_shape import TF32, Gemm
from .gemm_wgmma import has_wgmma

# A knob that no other of these families has: by it a configuration of a log is known.
KNOBS = {
    "threads_m": gemm_cuda, "in_turn": gemm_bf16x3, "swapped": gemm_bf16x3_fused,
    "tile_m": gemm_small_k, "lanes": matvec_cuda, "across": matvec_across,
}  # fmt: skip
ON_TENSOR_CORES = (gemm_bf16x3, gemm_bf16x3_fused)
# Estimates count cycles of every family alike, but those of `matvec_across` also of runs whose
# weights are not in the L2 cache. Where their errors are large the least of many choices is too
# small.
FACTORS = {gemm_cuda: 1.05, matvec_across: 0.85}
# The same of few rows and long sums by a b that is stored as [n, k] with k no multiple of 4, which
# `gemm_cuda` copies in one or two floats: on an H100 it took 1.1 to 2.4 times the estimate for 5
# products of 6 to 16 rows, `gemm_bf16x3_fused` 0.9 to 1.2 times.
FEW_ROWS, NARROW_COPIES = 16, 1.25


def family_of(shape: Gemm, target: Target, knobs: Container[str], fma: bool = False) -> ModuleType:
    """Return the module of the kernels that a configuration is of, or, of none, the fastest.

    Args:
        knobs: names of the knobs that were chosen, if any.
        fma: whether to multiply by ``fmaf`` in the order of the sums only.
    """
    known = next((family for knob, family in KNOBS.items() if knob in knobs), None)
    return known or _fastest(replace(shape, epilogue=Epilogue()), target, fma)


def taken(family: ModuleType, shape: Gemm) -> Gemm:
    """Return the shape that a family gets: of products as TF32, which only one tells apart."""
    exact = shape.dtype == TF32 and family is not gemm_bf16x3_fused
    return replace(shape, dtype="float32") if exact else shape


@lru_cache(maxsize=1024)
def _fastest(shape: Gemm, target: Target, fma: bool) -> ModuleType:
    """Return the family whose untuned choice takes the fewest cycles by its estimate."""
    exact = taken(gemm_cuda, shape)
    if not fma and matvec_cuda.suits(exact):
        return _fastest_of_few_rows(shape, target)
    if not fma and matvec_across.suits(exact, target):
        return matvec_across
    families = [gemm_cuda]
    if gemm_small_k.refusal(exact) is None:
        families.append(gemm_small_k)
    if not fma and has_wgmma(target):
        families += ON_TENSOR_CORES
    return min(families, key=lambda family: _cycles(family, shape, target))


def _fastest_of_few_rows(shape: Gemm, target: Target) -> ModuleType:
    """Return which family runs few rows by a b that is stored as [n, k].

    On an H200 the choices for 24 drawn products of 5 to 12 rows took 1.04 times as long as the
    faster of both in the geometric mean, and 0.91 of the time of `matvec_cuda` (cold 0.78).
    """
    if shape.m <= matvec_cuda.SOME_ROWS or not has_wgmma(target):
        return matvec_cuda
    split = _cycles(gemm_bf16x3_fused, shape, target)
    loaded = matvec_cuda.cycles(taken(matvec_cuda, shape), target)
    return matvec_cuda if loaded < split else gemm_bf16x3_fused


def cycles(shape: Gemm, target: Target) -> float:
    """Return the estimated cycles of the untuned choice of the fastest family."""
    return _cycles(family_of(shape, target, ()), shape, target)


def _cycles(family: ModuleType, shape: Gemm, target: Target) -> float:
    shape = taken(family, shape)
    cycles: float = family.estimate(shape, family.default_choice(shape, target), target)
    narrow = family is gemm_cuda and shape.transpose_b and shape.k % 4 > 0
    long = shape.m <= FEW_ROWS and shape.k > gemm_small_k.LONGEST
    longer = NARROW_COPIES if narrow and long else 1.0
    return longer * cycles * FACTORS.get(family, 1.0)
