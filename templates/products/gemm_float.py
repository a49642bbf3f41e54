"""Products of float32: which kernels run a shape.

Six families multiply them, each where it is fastest: `matvec_cuda` few rows by a b stored as
[n, k], `matvec_across` by a b stored as [k, n], `gemm_small_k` sums of few products,
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
# Where errors of an estimate are large the least of many choices is too small.
FACTORS = {gemm_cuda: 1.05}
# Cycles that families take more than estimated where weights are not in the L2 cache, in the
# geometric mean of runs hot and cold.
LONGER = {
    gemm_cuda: 4000.0, gemm_bf16x3: 3000.0, gemm_bf16x3_fused: 2000.0, gemm_small_k: 3000.0,
}  # fmt: skip
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
    families = [gemm_cuda]
    if gemm_small_k.refusal(exact) is None:
        families.append(gemm_small_k)
    if not fma and has_wgmma(target):
        families += ON_TENSOR_CORES
    if fma or not matvec_across.suits(exact, target):
        return min(families, key=lambda family: _cycles(family, shape, target))
    families.append(matvec_across)
    return min(families, key=lambda family: _cycles_hot_and_cold(family, shape, target))


def _fastest_of_few_rows(shape: Gemm, target: Target) -> ModuleType:
    """Return which family runs few rows by a b that is stored as [n, k].

    Of 9 and 12 rows `gemm_bf16x3_fused` took an H200 0.94 to 0.97 of the time of `matvec_cuda` for
    three products, hot and after 100 MB were written.
    """
    if shape.m <= matvec_cuda.SOME_ROWS or not has_wgmma(target):
        return matvec_cuda
    split = _cycles_hot_and_cold(gemm_bf16x3_fused, shape, target)
    loaded = _cycles_hot_and_cold(matvec_cuda, shape, target)
    few = shape.m <= matvec_cuda.MORE_ROWS
    return matvec_cuda if few and loaded < split else gemm_bf16x3_fused


def _cycles_hot_and_cold(family: ModuleType, shape: Gemm, target: Target) -> float:
    """Return cycles as families for few rows count them, also of runs after others' weights.

    On an H200 the others took 1.7 and 2.3 us longer than estimated in the geometric mean of both,
    27 and 23 products of 1 to 60 rows; of 40 products of up to eight rows by a b stored as [k, n]
    those of the least sum took 1.017 times as long as the fastest with 2,000 cycles of
    `gemm_bf16x3_fused`, and 1.020 times with 3,000.
    """
    return _cycles(family, shape, target) + LONGER.get(family, 0.0)


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
