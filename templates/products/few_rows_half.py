"""Products of few rows of 16-bit floats by unaligned weights: which kernels run a shape.

Vectors of 16 bytes do not divide rows of b. Four families read them without copies:
`matvec_cuda` one row of a by a b stored as [n, k], `gemm_skinny_unaligned` a few more,
`gemm_skinny_across` a few by a b stored as [k, n], and by TMA `gemm_unaligned`, whose choices are
in the space of `gemm_padded`, most others.
"""

from __future__ import annotations

import math
from collections.abc import Container
from types import ModuleType

from autotune import Target

from . import (
    gemm_half,
    gemm_padded,
    gemm_skinny_across,
    gemm_skinny_unaligned,
    gemm_small_k,
    gemm_unaligned,
    l2_resident,
    matvec_cuda,
)
from .gemm_shape import HALVES, Gemm
from .gemm_wgmma import has_wgmma

# A knob that none of the others of 16-bit floats has: by it a configuration of a log is known.
KNOBS = {
    "lanes": matvec_cuda, "strips": gemm_skinny_across, "together": gemm_skinny_unaligned,
}  # fmt: skip
# Columns from which on a kernel reads b as it is untuned, and elements of b from which on it is
# faster than copies for more rows of a than a fragment of ``mma.sync`` has.
LEAST_COLUMNS, LEAST_OF_MANY, ITEM_BYTES = 64, 2**23, 2
# By how much longer than estimated families take hot and after 100 MB were written, in the
# geometric mean: of no row, and of each; by weights that the L2 cache holds, and by others. They
# fit 65 products of up to 16 rows on an H200 within a third.
NEAR = {gemm_skinny_across: (1.25, 0.14), gemm_skinny_unaligned: (1.05, 0.01)}
FAR = {gemm_skinny_across: (1.3, 0.03), gemm_skinny_unaligned: (0.87, 0.028)}
# The same of `gemm_unaligned`, for any rows: of 38 products.
NEAR_BY_TMA, FAR_BY_TMA = 1.08, 1.0
# Rows of a up to which it reads even rows of a b stored as [k, n].
MOST_ACROSS = 4
# The same of families that copy b, or read its even rows four bytes at a time.
KNOBS_OF_OTHERS = ("warps_m", "tile_m", "family")


def family_of(shape: Gemm, target: Target, knobs: Container[str]) -> ModuleType | None:
    """Return the kernels that a configuration is of, or, of none, the fastest; None if others'.

    Args:
        knobs: names of the knobs that were chosen, if any.
    """
    if shape.dtype not in HALVES or any(knob in knobs for knob in KNOBS_OF_OTHERS):
        return None
    known = next((family for knob, family in KNOBS.items() if knob in knobs), None)
    return known or _fastest(shape, target)


def _fastest(shape: Gemm, target: Target) -> ModuleType | None:
    if not has_wgmma(target) or shape.b_run % gemm_skinny_across.VECTOR == 0:
        return None
    if matvec_cuda.suits_halves(shape):
        return matvec_cuda
    family = gemm_skinny_unaligned if shape.transpose_b else gemm_skinny_across
    if not _suits(shape) or family.refusal(shape) is not None:
        return None
    choice = family.default_choice(shape, target)
    if family.violation(shape, choice, target) is not None:
        return None
    by_tma = NEAR_BY_TMA if _is_near(shape) else FAR_BY_TMA
    by_tma *= gemm_unaligned.cycles_of_few_rows(shape, target)
    slower = by_tma < _cycles(family, shape, choice, target)
    return None if slower and _runs_by_tma(shape, target) else family


def _runs_by_tma(shape: Gemm, target: Target) -> bool:
    """Return whether `gemm_padded` reads b without copies untuned."""
    if not (gemm_padded.is_needed(shape) or gemm_padded.gains(shape, target)):
        return False
    choice = gemm_padded.Padded(gemm_half).default_choice(shape, target)
    return choice.get(gemm_half.KNOB) in gemm_unaligned.FORMS


def _cycles(family: ModuleType, shape: Gemm, choice: dict[str, int], target: Target) -> float:
    """Return cycles comparable to those of `gemm_unaligned`, hot and cold.

    Of more than 8 rows `gemm_skinny_across` took 1.4 to 3.4 times as long for six of six, up to 5
    times its estimate.
    """
    across = family is gemm_skinny_across
    if across and shape.m > gemm_skinny_across.VECTOR:
        return math.inf
    base, of_row = (NEAR if _is_near(shape) else FAR)[family]
    return (base + of_row * shape.m) * float(family.estimate(shape, choice, target))


def _is_near(shape: Gemm) -> bool:
    """Return whether the L2 cache holds b from one run to the next."""
    return ITEM_BYTES * shape.n * shape.k < l2_resident.LEAST


def _suits(shape: Gemm) -> bool:
    """Return whether a product is fastest by a kernel that reads unaligned weights as they are.

    Instead of copies: of 20 that an H200 ran in another draw 16 were 1.01 to 3.0 times as fast,
    and of the four others, all of 9 to 16 rows by less than 14 MB, 11x208x13733 took 1.2 times as
    long. Even rows are read by ``mma.sync`` in tiles too: 3x14108x1814 took 30.9 us so and 16.4
    by these kernels, but 4x4098x4098 11.4 and 14.3, 9x29406x1706 35.4 and 41.4, and by a b stored
    as [k, n] 7x20286x4356 51.8 and 80.3.
    """
    size = shape.n * shape.k
    if shape.k <= gemm_small_k.LONGEST or shape.n < LEAST_COLUMNS:
        return False
    if gemm_padded.is_needed(shape):
        return shape.m <= gemm_skinny_across.VECTOR or size >= LEAST_OF_MANY
    most = gemm_skinny_across.VECTOR if shape.transpose_b else MOST_ACROSS
    far = shape.m <= most and ITEM_BYTES * size >= l2_resident.LEAST
    return far or (shape.m <= matvec_cuda.EVEN_ROWS and shape.transpose_b)
