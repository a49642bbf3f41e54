"""Products of few rows, as of a dense layer of one image: they are bound by memory.

b is stored as [n, k], as the weights of dense layers are, and read once by whole vectors; each
group of neighbouring threads adds up some of its rows, and shares partial sums by shuffles
(Bell and Garland, "Efficient sparse matrix-vector multiplication on CUDA", 2008, for dense rows).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial

from autotune import SourceKernel, Target, call
from autotune.errors import TemplateError

from .. import choices, common
from ..epilogue import Epilogue
from ..rows.rows_shape import DTYPES
from . import gemm_small_k, l2_resident, matvec_estimate, matvec_unaligned
from .gemm_shape import HALVES, Gemm, first_names, result_name
from .matvec_tiling import MatvecTiling, weight_bytes

# With more rows of a, tiled products are faster.
MOST_ROWS = 16
# Rows of products of matrices that run so untuned, above which others are faster on Hopper, and
# above which they may be.
FEW_ROWS, MORE_ROWS, SOME_ROWS = 12, 8, 4
# Bytes of weights from which on little of them is in the L2 cache when they are read again.
FAR = 50 * 10**6
# Cycles of each load of a round, up to so many rounds: the factor is in `Factors`.
ROUNDS = 12
# Elements of a that stay in the L1 cache beside weights that the L2 cache does not hold, and how
# much longer others are loaded: of 8x4096x11008 eight rows of weights at a time took an H200 45.9
# us, and 54.5 after 100 MB were written, four 55.3 and 69.7.
STAYING = 40_000
# Vectors of a lane of an untuned choice, unless a row has the most lanes.
LONGEST = 24
# Rows that run so of weights which vectors of four do not divide, and elements of these from which
# on: tiled products load them in short runs. Of 16-bit floats that pairs divide fewer.
ODD_ROWS, LEAST_ODD, EVEN_ROWS = 4, 2**20, 2
# Terms from which on that is so of two rows of 16-bit floats: 2x3852x498 took an H200 3.5 us so
# and 3.0 by `gemm_skinny_unaligned`, 2x41439x358 10.0 and 7.7, but 2x1874x2478 4.0 and 6.2.
LONG_EVEN = 1024
# What a choice has of a log that is older than a knob.
ADDED = l2_resident.ADDED
# Lanes of a row of choices that are estimated by these factors.
FEWER_LANES = 256


@dataclass(frozen=True)
class Factors:
    """Factors of the estimate.

    Attributes:
        far_bytes, near_bytes: of weights that are read in a cycle, beyond and within the L2 cache.
        loaded_bytes: that a multiprocessor loads in a cycle, those of a too.
        far_round, near_round: cycles of a round of loads that wait for those before.
        product: cycles of a product.
        starting: cycles of a kernel beside its blocks.
        overlapping: exponent of the sum of works that overlap.
        load: cycles of each load of a round.
        again: how much longer rows of a are loaded that do not stay in the L1 cache.
    """

    far_bytes: float
    near_bytes: float
    loaded_bytes: float
    far_round: float
    near_round: float
    product: float
    starting: float
    overlapping: float
    load: float
    again: float


# Fitted to 406 choices of 24 products of 1 to 12 rows of float32 with an error of 14%: those of
# the least estimate took 1.07 times as long as the fastest.
FITTED = Factors(3000, 2800, 121, 389, 578, 0.012, 3750, 2.16, 100, 2.3)


def suits(shape: Gemm) -> bool:
    """Return whether a product of float32 runs so untuned, of more than `SOME_ROWS` by estimate.

    Of 16 rows 4096x4096 took an H200 47.5 us so and 36.9 by others.
    """
    layout = shape.transpose_b and not shape.transpose_a and shape.batch == 1
    odd = shape.m <= ODD_ROWS and shape.n * shape.k >= LEAST_ODD
    whole = shape.k % 4 == 0 or SOME_ROWS < shape.m <= MORE_ROWS
    few = shape.m <= FEW_ROWS and (whole or odd)
    return layout and shape.dtype == "float32" and few


def suits_halves(shape: Gemm) -> bool:
    """Return whether a product of 16-bit floats runs so untuned: one row by unaligned weights.

    By odd ones whose terms registers hold; by even ones, which tiles of ``mma.sync`` read too, up
    to two rows where the L2 cache holds the weights: 1x94480x820 took an H200 36.0 us so and 88.0.
    Others are of `gemm_skinny_unaligned`: 1x50257x767 took 21.6 us so and 21.4, after 100 MB were
    written 25.3 and 28.3; but 2x50257x767 29.6 and 22.2, 2x25612x1422 39.3 and 21.3, and
    1x21020x2767, too long for registers, 55.4 and 34.2.
    """
    layout = shape.transpose_b and not shape.transpose_a and shape.batch == 1
    large = shape.n * shape.k >= LEAST_ODD and shape.k > gemm_small_k.LONGEST
    if shape.k % 2:
        few = shape.m == 1 and matvec_unaligned.gains(shape)
    else:
        near = weight_bytes(shape) < l2_resident.LEAST
        several = near and shape.k >= LONG_EVEN
        few = shape.m <= (EVEN_ROWS if several else 1) and shape.k % 8 > 0
    return layout and shape.dtype in HALVES and few and large


def candidates(shape: Gemm) -> dict[str, list[int]]:
    """Return the values each knob may take for a shape."""
    sizes = _sizes(shape)
    if matvec_unaligned.suits(shape):
        sizes["vec"].append(16 // DTYPES[shape.dtype])
    return {**sizes, l2_resident.KNOB: l2_resident.values(weight_bytes(shape), shape.m)}


def _sizes(shape: Gemm) -> dict[str, list[int]]:
    """Return the values of knobs where vectors divide rows."""
    widest = 16 // DTYPES[shape.dtype]
    return {
        "vec": [v for v in (1, 2, 4, 8) if shape.k % v == 0 and v <= widest],
        "lanes": [4, 8, 16, 32, 64, 128, 256, 512, 1024],
        "rows": common.up_to(shape.n, (1, 2, 4, 8)),
        "groups": [1, 2, 4, 8, 16, 32],
        "ahead": [1, 2, 3, 4],
    }


def violation(shape: Gemm, choice: Mapping[str, int], target: Target) -> str | None:
    """Return why a choice cannot run or is sure to be slow, or None."""
    return common.first_broken(_rules(choice, shape, target))


def _rules(choice: Mapping[str, int], shape: Gemm, target: Target) -> list[tuple[bool, str]]:
    """Return the rules of `violation`; choices may be arrays of them."""
    tiling, c = MatvecTiling(shape, choice), choice
    return [
        *common.limit_rules(tiling, target.limits),
        (tiling.threads % 32 > 0, "no whole warps"),
        ((c["lanes"] > 4) & (c["lanes"] * c["vec"] >= 2 * shape.k), "lanes beyond the row"),
        (
            (c["groups"] > 1) & (c["groups"] * c["rows"] * c["lanes"] >= 64 * shape.n),
            "idle groups",
        ),
        (
            (tiling.unaligned == 0) & (c["ahead"] > 1) & (c["ahead"] > tiling.steps),
            "more steps ahead than there are",
        ),
        *matvec_unaligned.rules(shape, choice, tiling.unaligned),
    ]


def _usual(choice: Mapping[str, int], shape: Gemm, target: Target) -> list[tuple[bool, str]]:
    """Return the rules of choices that are like those the estimate was fitted to."""
    tiling, c = MatvecTiling(shape, choice), choice
    rules = [
        *_rules(choice, shape, target),
        (c["rows"] * shape.m > 64, "too many sums"),
        (c["rows"] * c["ahead"] * c["vec"] > 48, "too many loads ahead"),
    ]
    if _is_latency_bound(shape):
        return [*rules, *matvec_estimate.rules(tiling, choice)]
    return [
        *rules,
        ((tiling.threads < 64) | (tiling.threads > 512), "too few or too many threads"),
        (c["lanes"] > FEWER_LANES, "too many lanes"),
        ((c["lanes"] < FEWER_LANES) & (tiling.steps > LONGEST), "too many steps"),
    ]


def _is_latency_bound(shape: Gemm) -> bool:
    """Return whether the estimate is that of `matvec_estimate`."""
    return shape.m <= MORE_ROWS and shape.dtype == "float32"


def estimate(shape: Gemm, choice: Mapping[str, int], target: Target) -> float:
    """Return a rough number of cycles, the geometric mean of runs hot and cold.

    Choices may be arrays.
    """
    tiling = MatvecTiling(shape, choice)
    if _is_latency_bound(shape):
        return matvec_estimate.estimate(shape, choice, tiling, target)
    return _estimate_of_others(shape, choice, tiling, target)


def _estimate_of_others(
    shape: Gemm, choice: Mapping[str, int], tiling: MatvecTiling, target: Target
) -> float:
    """Return cycles of 16-bit floats and of more rows: memory, loads, latency, and products.

    The factors were fitted to the geometric mean of times hot and after 100 MB were written, of
    float32 on an H200.
    """
    c = choice
    count, size = common.multiprocessors(target), DTYPES[shape.dtype]
    waves = common.ceil_div(tiling.blocks, count * tiling.resident)
    together = common.smaller(tiling.resident, common.ceil_div(tiling.blocks, count))
    far = weight_bytes(shape) > FAR
    here = waves * together * tiling.threads * tiling.vectors * c["vec"] * c["rows"]
    reading = weight_bytes(shape) / (FITTED.far_bytes if far else FITTED.near_bytes)
    # For so many rows of weights a vector of each row of a, which weights may drive out.
    again = FITTED.again if far and shape.m * shape.k > STAYING else 1.0
    loading = here * size * (1 + again * shape.m / c["rows"]) / FITTED.loaded_bytes
    waiting = waves * tiling.rounds * (FITTED.far_round if far else FITTED.near_round)
    multiplying = here * shape.m * FITTED.product
    works = (reading, loading, waiting, multiplying)
    cycles: float = sum(work**FITTED.overlapping for work in works) ** (1 / FITTED.overlapping)
    issuing = waves * common.smaller(tiling.rounds, ROUNDS) * tiling.loads * FITTED.load
    return cycles + issuing + FITTED.starting


def _for_streaming(shape: Gemm) -> dict[str, int]:
    """Return the choice for weights beyond the L2 cache: many threads read a row of them.

    On an H200 these took 1.00 to 1.01 times as long as the best of 36 choices, for six products of
    1 and 3 rows, from 51865x512 to 128256x4096; those of the least estimate 1.1 to 2.4 times.
    """
    vec, single = _sizes(shape)["vec"][-1], shape.m <= 2
    most = 256 if single else 64
    fit = [n for n in (32, 64, 128, 256) if 2 * n * vec <= shape.k and n <= most]
    lanes = max(fit, default=32)
    return {
        "vec": vec, "lanes": lanes, "rows": 1 if single else 2, "groups": max(1, 128 // lanes),
        "ahead": 2 if vec > 1 else 4,
    }  # fmt: skip


def default_choice(shape: Gemm, target: Target) -> dict[str, int]:
    """Return a good guess for a shape that was never tuned: by rule, or the best by estimate."""
    unaligned = matvec_unaligned.gains(shape)
    choice = matvec_unaligned.untuned(shape) if unaligned else _for_streaming(shape)
    far = weight_bytes(shape) >= l2_resident.LEAST
    streamed = shape.m <= SOME_ROWS and far and not _is_latency_bound(shape)
    if not (unaligned or streamed) or violation(shape, choice, target) is not None:
        choice = _best(shape, target, _usual)
    if violation(shape, choice, target) is not None:
        choice = _best(shape, target, _rules)
    return choice | {l2_resident.KNOB: _resident(shape, choice, target)}


def _best(
    shape: Gemm,
    target: Target,
    rules: Callable[..., list[tuple[bool, str]]],
) -> dict[str, int]:
    """Return the choice by whole vectors that keeps the rules and has the least estimate."""
    sizes = _sizes(shape)
    return choices.best_of_all(
        {**sizes, "vec": sizes["vec"][-1:]},
        partial(rules, shape=shape, target=target),
        partial(estimate, shape, target=target),
    )


def _resident(shape: Gemm, choice: Mapping[str, int], target: Target) -> int:
    """Return how many megabytes of b stay in the L2 cache untuned.

    Where lanes load less than a sector at a time they need it again: with 100 MB written between,
    evict first 1x51865x513 took an H200 76.6 us instead of 74.0.
    """
    loaded = choice["lanes"] * choice["vec"] * DTYPES[shape.dtype]
    whole = loaded >= l2_resident.SECTOR
    return whole * l2_resident.untuned(weight_bytes(shape), target)


def _bounds(shape: Gemm, tiling: MatvecTiling) -> str:
    """Return the launch bounds of a kernel, with blocks where the estimate knows of them."""
    blocks = f", {tiling.least_blocks}" if _is_latency_bound(shape) else ""
    return f"{tiling.threads}{blocks}"


def kernel(shape: Gemm, choice: Mapping[str, int]) -> SourceKernel:
    """Return the kernel of a choice of knobs.

    Raises:
        TemplateError: it is no product of few rows, or b is stored otherwise.
    """
    if shape.m > MOST_ROWS or shape.batch > 1 or shape.transpose_a or not shape.transpose_b:
        raise TemplateError(
            f"matvec: a must have at most {MOST_ROWS} rows, and b be stored as [n, k], got {shape}"
        )
    tiling = MatvecTiling(shape, choice)
    defines: dict[str, int | str] = {
        **common.defines(m=shape.m, n=shape.n, k=shape.k, threads=tiling.threads),
        **({} if tiling.unaligned else {"BOUNDS": _bounds(shape, tiling)}),
        **common.defines(**l2_resident.in_256ths(weight_bytes(shape), choice)),
        **common.defines(element=list(DTYPES).index(shape.dtype), **shape.epilogue.defines()),
        **common.defines(follows=shape.epilogue != Epilogue()),
        **shape.epilogue.texts(shape.dtype),
    }
    names = [*first_names(shape), result_name(shape)]
    entry = matvec_unaligned.ENTRY if tiling.unaligned else "matvec"
    calls = [call(entry, names, tiling.blocks, tiling.threads)]
    left_over = ["left_over.h"] if tiling.unaligned else []
    texts = ["elements.h", "epilogue.h", "operands.h", l2_resident.TEXT, *left_over, f"{entry}.cu"]
    return common.cuda_kernel(shape, texts, defines, calls)
