"""Products of few rows, as of a dense layer of one image: they are bound by memory.

b is stored as [n, k], as the weights of dense layers are, and read once by whole vectors; each
group of neighbouring threads adds up some of its rows, and shares partial sums by shuffles
(Bell and Garland, "Efficient sparse matrix-vector multiplication on CUDA", 2008, for dense rows).
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial

from autotune import SourceKernel, Target, call
from autotune.errors import TemplateError

from .. import common
from ..epilogue import Epilogue
from ..rows.rows_shape import DTYPES
from . import gemm_small_k, l2_resident, matvec_unaligned
from .gemm_shape import HALVES, Gemm, first_names, result_name
from .matvec_unaligned import UnalignedTiling

# With more rows of a, tiled products are faster.
MOST_ROWS = 16
# Rows of products of matrices that run so untuned, and above which others may be faster.
FEW_ROWS, SOME_ROWS = 12, 4
# Bytes that a multiprocessor loads from its L1 cache in a cycle, of a too: on an H200 56 to 73 for
# eight products of 5 to 16 rows; and cycles of a kernel beside them.
L1_BYTES, STARTING = 64, 2500
# Elements of a that stay in the L1 cache, and cycles that each other one takes more, as weights
# drive it out, in the geometric mean of runs hot and cold: with 100 MB written before 8x4096x11008
# took an H200 100 us, hot 65, 12x4096x4096 56 and 33, but 12x50257x768 62 and 55.
STAYING, READ_AGAIN = 8192, 0.3
# Rows that run so of weights which vectors of four do not divide, and elements of these from which
# on: tiled products load them in short runs. Of 16-bit floats that pairs divide fewer.
ODD_ROWS, LEAST_ODD, EVEN_ROWS = 4, 2**20, 2
# Terms from which on that is so of two rows of 16-bit floats: 2x3852x498 took an H200 3.5 us so
# and 3.0 by `gemm_skinny_unaligned`, 2x41439x358 10.0 and 7.7, but 2x1874x2478 4.0 and 6.2.
LONG_EVEN = 1024
# Bytes of weights from which on they are not in the L2 cache from one run to the next.
STREAMED = 52 * 10**6
# What a choice has of a log that is older than a knob.
ADDED = l2_resident.ADDED


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
        read = (c["rows"] + 1) * c["vec"] * c["ahead"]
        registers = c["rows"] * shape.m + read + 2 * c["rows"] + 30
        self.registers = common.pick(self.unaligned, other.registers, registers)
        # Rounds of loads that wait for each other, and loads of a thread in each.
        self.rounds = common.pick(self.unaligned, c["ahead"], steps / c["ahead"])
        self.together = common.pick(self.unaligned, other.steps, c["ahead"])


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
        "ahead": [1, 2, 4],
    }


def violation(shape: Gemm, choice: Mapping[str, int], target: Target) -> str | None:
    """Return why a choice cannot run or is sure to be slow, or None."""
    tiling, c = MatvecTiling(shape, choice), choice
    rules = [
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
    return common.first_broken(rules)


def estimate(shape: Gemm, choice: Mapping[str, int], target: Target) -> float:
    """Return a rough number of cycles: loads, their latency, and the reduction."""
    tiling, c = MatvecTiling(shape, choice), choice
    occupied = common.occupancy(
        target, tiling.blocks, tiling.threads, tiling.registers, tiling.shared_bytes
    )
    size = DTYPES[shape.dtype]
    # Bytes in flight, against those that hide a latency of 800 cycles at 32 a cycle.
    ahead = c["rows"] * c["vec"] * tiling.together * size * tiling.threads * occupied.together
    fetched = tiling.rounds * tiling.together * c["vec"] * c["rows"] * size * tiling.threads
    reading = fetched * occupied.together / 32
    waiting = tiling.rounds * max(0.0, 800 - ahead / 32)
    computed = (
        tiling.rounds * tiling.together * c["rows"] * shape.m * c["vec"] * tiling.threads / 128
    )
    adding = 30 * c["rows"] * shape.m
    return occupied.waves * (max(reading, computed * occupied.together) + waiting + adding + 500)


def cycles(shape: Gemm, target: Target) -> float:
    """Return the estimated cycles of the untuned choice, comparable to those of other families.

    For each vector of weights a thread loads one of each row of a, from the L1 cache, which is
    what bounds more than a few rows; rows of weights that it multiplies share them.
    """
    choice = default_choice(shape, target)
    vectors = weight_bytes(shape) * (1 + shape.m / choice["rows"])
    loading = vectors / (L1_BYTES * common.multiprocessors(target))
    reading_again = READ_AGAIN * max(0, shape.m * shape.k - STAYING)
    return max(float(estimate(shape, choice, target)), loading + STARTING) + reading_again


def _for_streaming(shape: Gemm) -> dict[str, int]:
    """Return the choice for weights beyond the L2 cache: many threads read a row of them.

    On an H200 these took 1.00 to 1.01 times as long as the best of 36 choices, for six products of
    1 and 3 rows, from 51865x512 to 128256x4096; those of the least estimate 1.1 to 2.4 times. Of
    more rows a warp has a row: 5x20000x1024 took 20.1 us so and 22.0 by 64 lanes, 8x4096x11008
    62.8 and 66.3.
    """
    vec = _sizes(shape)["vec"][-1]
    single, more = shape.m <= 2, shape.m > SOME_ROWS
    most = 256 if single else 32 if more else 64
    fit = [n for n in (32, 64, 128, 256) if 2 * n * vec <= shape.k and n <= most]
    lanes = max(fit, default=32)
    groups = max(1, 128 // lanes)
    return {
        "vec": vec, "lanes": lanes, "rows": 1 if single else 2, "groups": groups,
        "ahead": 1 if more else 2 if vec > 1 else 4,
    }  # fmt: skip


def default_choice(shape: Gemm, target: Target) -> dict[str, int]:
    """Return a good guess for a shape that was never tuned: by rule, or the best of a sample."""
    unaligned = matvec_unaligned.gains(shape)
    choice = matvec_unaligned.untuned(shape) if unaligned else _for_streaming(shape)
    streamed = unaligned or weight_bytes(shape) >= STREAMED
    if not streamed or violation(shape, choice, target) is not None:
        choice = common.best_drawn(
            _sizes(shape),
            2000,
            partial(violation, shape, target=target),
            partial(estimate, shape, target=target),
        )
    return choice | {l2_resident.KNOB: _resident(shape, choice, target)}


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
