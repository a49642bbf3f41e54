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
from . import gemm_small_k, l2_resident, matvec_unaligned
from .gemm_cuda import REGISTERS
from .gemm_shape import HALVES, Gemm, first_names, result_name
from .matvec_unaligned import UnalignedTiling

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
# Of five to eight rows, groups of threads and vectors ahead of choices that were raced.
MOST_GROUPS, MOST_AHEAD, WARP = 8, 2, 32


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
        partial_wave: how much of a wave blocks take that do not fill it, 1 for all.
        narrow: exponent of the share of a warp that reads a row, as which weights arrive slower.
        shared: exponent of the groups of a block, which load the same terms of a.
        registers: percent of those of `MatvecTiling` that compilers take.
        ahead: how much longer choices take that load more than one vector ahead.
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
    partial_wave: float = 1.0
    narrow: float = 0.0
    shared: float = 0.0
    registers: int = 100
    ahead: float = 1.0


# Of all but five to eight rows, fitted to 406 choices of 24 products of 1 to 12 rows with an error
# of 14%: those of the least estimate took 1.07 times as long as the fastest.
OF_SOME = Factors(3000, 2800, 121, 389, 578, 0.012, 3750, 2.16, 100, 2.3)
# Of these, fitted to 268 choices of 24 products with an error of 11%: those of the least estimate
# took 1.05 times as long as the fastest raced one, by the factors above 1.19 times.
OF_MORE = Factors(
    3560, 3280, 144, 647, 625, 0.0118, 3850, 1.51, 67.4, 1.81,
    partial_wave=0.559, narrow=0.349, shared=0.282, registers=81, ahead=1.08,
)  # fmt: skip


def suits(shape: Gemm) -> bool:
    """Return whether a product of float32 runs so untuned, of more than `SOME_ROWS` by estimate.

    Of 16 rows 4096x4096 took an H200 47.5 us so and 36.9 by others.
    """
    layout = shape.transpose_b and not shape.transpose_a and shape.batch == 1
    odd = shape.m <= ODD_ROWS and shape.n * shape.k >= LEAST_ODD
    few = shape.m <= FEW_ROWS and (shape.k % 4 == 0 or odd)
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


class MatvecTiling:
    """The sizes that follow from a shape and a choice of knobs."""

    def __init__(self, shape: Gemm, choice: Mapping[str, int]) -> None:
        c = choice
        # Vectors that do not divide rows are loaded aligned all the same.
        self.unaligned = shape.k % c["vec"] > 0
        self.threads = c["lanes"] * c["groups"]
        other = UnalignedTiling(shape, choice)
        parts = 4 * self.threads // 32 * c["rows"] * shape.m * (c["lanes"] > 32)
        self.shared_bytes = common.pick(self.unaligned, other.shared_bytes, parts)
        blocks = common.ceil_div(shape.n, c["rows"] * c["groups"])
        self.blocks = common.pick(self.unaligned, other.blocks, blocks)
        steps = common.ceil_div(shape.k, c["lanes"] * c["vec"])
        self.steps = common.pick(self.unaligned, other.steps, steps)
        read = c["rows"] * (c["vec"] * c["ahead"] + 2) + c["vec"]
        registers = common.smaller(c["rows"] * shape.m + read + 34, 255)
        self.registers = common.pick(self.unaligned, other.registers, registers)
        # Rounds of loads that wait for each other, and vectors of a lane in all.
        rounds = common.ceil_div(steps, c["ahead"])
        self.rounds = common.pick(self.unaligned, c["ahead"], rounds)
        self.vectors = common.pick(self.unaligned, c["ahead"] * other.steps, steps)
        # Loads of a lane in a round.
        self.loads = c["rows"] * common.pick(self.unaligned, other.steps, c["ahead"])

    def resident(self, percent: int = 100) -> int:
        """Return how many blocks fit a multiprocessor by threads and so much of the registers."""
        by_registers = 100 * REGISTERS // (percent * self.registers * self.threads)
        least = common.smaller(by_registers, 2048 // self.threads)
        return common.larger(1, common.smaller(least, 32))


def weight_bytes(shape: Gemm) -> int:
    """Return the bytes of b."""
    return shape.n * shape.k * DTYPES[shape.dtype]


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
        "lanes": [4, 8, 16, 32, 64, 128, 256],
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
    return [
        *_rules(choice, shape, target),
        ((tiling.threads < 64) | (tiling.threads > 512), "too few or too many threads"),
        (c["rows"] * shape.m > 64, "too many sums"),
        (c["rows"] * c["ahead"] * c["vec"] > 48, "too many loads ahead"),
        ((c["lanes"] < 256) & (tiling.steps > LONGEST), "too many steps"),
        *_raced(tiling, choice, _has_more_rows(shape)),
    ]


def _raced(tiling: MatvecTiling, choice: Mapping[str, int], more: bool) -> list[tuple[bool, str]]:
    """Return the rules of choices like those raced of five to eight rows.

    By the estimate before 6x139467x284 ran by 4 lanes and 32 groups, in 75.3 us on an H200 and in
    90.1 after 100 MB were written, by 32 lanes and 4 groups in 45.9 and 56.0.
    """
    c = choice
    return [
        (more & (c["lanes"] < WARP) & (tiling.steps > 1), "less than a warp for a row"),
        (more & (c["groups"] > MOST_GROUPS), "too many groups"),
        (more & (c["ahead"] > MOST_AHEAD), "too many vectors ahead"),
    ]


def _has_more_rows(shape: Gemm) -> bool:
    """Return whether choices are of products as `OF_MORE` was fitted to, of float32."""
    return SOME_ROWS < shape.m <= MORE_ROWS and shape.dtype == "float32"


def estimate(shape: Gemm, choice: Mapping[str, int], target: Target) -> float:
    """Return a rough number of cycles: of memory, loads, their latency, and products.

    The factors were fitted to the geometric mean of times hot and after 100 MB were written, of
    float32 on an H200. Choices may be arrays.
    """
    tiling, c = MatvecTiling(shape, choice), choice
    factors = OF_MORE if _has_more_rows(shape) else OF_SOME
    count, size = common.multiprocessors(target), DTYPES[shape.dtype]
    resident, blocks = tiling.resident(factors.registers), tiling.blocks
    whole = common.ceil_div(blocks, count * resident)
    share = common.larger(1.0, blocks / (count * resident))
    waves = share + factors.partial_wave * (whole - share)
    together = common.smaller(resident, common.ceil_div(blocks, count))
    far = weight_bytes(shape) > FAR
    here = waves * together * tiling.threads * tiling.vectors * c["vec"] * c["rows"]
    # Lanes of a warp that read another row each load short runs.
    narrow = common.larger(1.0, WARP / c["lanes"]) ** factors.narrow
    bytes_a_cycle = factors.far_bytes if far else factors.near_bytes
    reading = weight_bytes(shape) * narrow / bytes_a_cycle
    # For so many rows of weights a vector of each row of a, which weights may drive out.
    again = factors.again if far and shape.m * shape.k > STAYING else 1.0
    again = again / (c["groups"] * 1.0) ** factors.shared
    loading = here * size * (1 + again * shape.m / c["rows"]) / factors.loaded_bytes
    waiting = waves * tiling.rounds * (factors.far_round if far else factors.near_round)
    multiplying = here * shape.m * factors.product
    works = (reading, loading, waiting, multiplying)
    cycles: float = sum(work**factors.overlapping for work in works) ** (1 / factors.overlapping)
    issuing = waves * common.smaller(tiling.rounds, ROUNDS) * tiling.loads * factors.load
    longer = common.pick(c["ahead"] > 1, factors.ahead, 1.0)
    return longer * (cycles + issuing + factors.starting)


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
    few = shape.m <= SOME_ROWS and weight_bytes(shape) >= l2_resident.LEAST
    if not (unaligned or few) or violation(shape, choice, target) is not None:
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
