"""Products of few rows of 8-bit integers: the other operand is streamed once.

So they are in the decoding of a language model with quantised weights. Warps load both operands
from global memory to registers, prefetched some steps ahead, and multiply by ``mma.sync`` (see
``gemm_skinny_int8.cu``); blocks split K, those of a cluster or, where there are few tiles, as many
as fill the device. Either operand may be stored along K or across, with rows of any length, and
none is copied.
"""

from __future__ import annotations

from collections.abc import Container, Mapping
from functools import lru_cache, partial

from autotune import SourceKernel, Target, call

from .. import choices, common
from ..occupancy import resident_blocks
from . import gemm_half, gemm_tma, l2_resident
from .gemm_half import FULL_ROWS
from .gemm_shape import Gemm, first_names, result_name

# Rows of a fragment, fragments of a tile, as a rule and at most, and lanes of a warp that have
# columns of their own.
FRAGMENT, FRAGMENTS, MOST_FRAGMENTS, LANES = 16, 2, 4, 8
# Integers along K that a warp takes at a time.
STEP = 64
# Blocks of a cluster, at most, and of more that split K; threads of a block that adds their sums.
CLUSTERED, MORE, REDUCE_THREADS = 8, (16, 32, 64), 128
# What a choice has of a log that is older than a knob.
ADDED = {"frags_m": FRAGMENTS, **l2_resident.ADDED}
# A knob that no other kernels of integers have: by it a configuration of a log is known.
KNOB = "strips"
# Integers of the other operand from which on it is streamed where nothing was tuned.
LEAST = 2**18
# And, with sums as long, from which on the L2 cache does not hold it beside the rest, and TMA
# streams it faster for more rows than a fragment has: one of 42.8 to 45.1 MB of an H200 (`suits`).
LARGE, LONG_SUM = 43_000_000, 4096
# Bytes of b up to which a part stays in the cache untuned: with four of 131 MB in turn all took
# 1.01 times as long. So they did of a b stored as [k, n] (16x14336x4096 1.02 to 1.04, unaligned
# 4x14340x4096 up to 1.05), and of rows that share sectors (4x14336x4100 nt 1.05 to 1.10).
MOST_RESIDENT = 2**26
# Of a multiprocessor, and how many a device has.
REGISTERS, MULTIPROCESSORS = 65536, 132
# Multiprocessors that clusters of more than two blocks fill: products by TMA took twice as long
# where more than 30 clusters of four were needed, or 15 of eight, since those of a cluster share a
# GPC (docs/measurements_products_16bit.md). 20x3840x11136 nt took an H200 12.0 us by 60 clusters
# of four, two blocks a multiprocessor, and 32x4096x10240 nt 18.6 by 64.
IN_CLUSTERS = 120
# Blocks beyond which more ranges of K gain nothing.
MOST_BLOCKS = 3 * MULTIPROCESSORS
MOST_REGISTERS = 250
# Bytes of a b beyond the L2 cache (`LARGE`) that are read in a cycle.
FAR_BYTES = 1850
# Share of the estimate that TMA takes of few rows of operands along the sum, and bytes in a cycle
# in which it reads a b beyond the L2 cache.
OF_TMA_ALONG_K, FAR_BY_TMA = 0.66, 2050


class SkinnyTiling:
    """The sizes that follow from a shape and a choice of knobs."""

    def __init__(self, shape: Gemm, choice: Mapping[str, int]) -> None:
        c = choice
        # Of an a stored as [k, m] a lane loads four or eight neighbours, of two or four fragments.
        unit = FRAGMENTS if shape.transpose_a else 1
        needed = unit * common.ceil_div(shape.m, unit * FRAGMENT)
        self.frags_m = common.smaller(c["frags_m"], needed)
        self.rows, self.strip = self.frags_m * FRAGMENT, LANES * c["vec"]
        self.threads = 32 * c["strips"] * c["ranges"]
        # Rows of sums in shared memory are an eighth longer than strips.
        self.shared_bytes = c["strips"] * c["ranges"] * self.rows * 9 * c["vec"] * 4
        self.steps = common.ceil_div(common.ceil_div(shape.k, STEP), c["ranges"] * c["split"])
        self.tiles = (
            common.ceil_div(shape.n, self.strip * c["strips"]),
            common.ceil_div(shape.m, self.rows),
        )
        self.blocks = self.tiles[0] * self.tiles[1] * c["split"]
        self.split, self.several = c["split"], c["split"] > CLUSTERED
        held = 4 * c["vec"] + 8 * self.frags_m
        # Sums, prefetched operands, and addresses.
        self.registers = 4 * self.frags_m * c["vec"] + (c["ahead"] + 1) * held + 40

    @property
    def resident(self) -> int:
        """How many blocks fit a multiprocessor."""
        return resident_blocks(self.threads, self.registers, self.shared_bytes)

    @property
    def clustered(self) -> bool:
        """Whether the ranges of K of a tile are those of a cluster."""
        return (self.split > 1) & (self.several == 0)

    @property
    def slots(self) -> int:
        """How many multiprocessors run blocks."""
        wide = self.clustered & (self.split > 2)
        return common.pick(wide, IN_CLUSTERS, MULTIPROCESSORS)

    @property
    def waves(self) -> int:
        """How often blocks take the place of others."""
        return common.ceil_div(self.blocks, self.slots * self.resident)

    @property
    def warps(self) -> int:
        """How many warps of the first blocks share a multiprocessor, at most."""
        here = common.smaller(self.resident, common.ceil_div(self.blocks, self.slots))
        return here * self.threads // 32


def refusal(shape: Gemm) -> str | None:
    """Return why this kernel cannot serve a shape, or None."""
    rules = [
        (shape.dtype != "int8", "operands must be 8-bit integers"),
        (shape.batch > 1, "there must be one matrix"),
    ]
    return common.first_broken(rules)


def suits(shape: Gemm, knobs: Container[str] = ()) -> bool:
    """Return whether a product of few rows runs so, unless knobs were chosen for other kernels.

    Of a b that TMA reads as it is fewer do, and of one beyond the L2 cache fewer still: on an H200
    32x13072x6864 nt took 40.1 us so and 30.0 by TMA, 32x4096x11008 nt 24.4 and 13.9, 24x9000x5008
    nt 18.6 and 18.1; but 20x3840x11136 nt 12.0 and 14.6, 24x4096x9008 nt 16.4 and 27.0,
    20x2560x16384 nt 13.0 and 15.4, 28x8192x4608 nt 10.0 and 13.5, 30x3072x12000 nt as long. Those
    of 4096 columns ran in clusters of which not all were resident (`IN_CLUSTERS`).
    """
    if "warps_m" in knobs or refusal(shape) is not None:
        return False
    by_tma = shape.transpose_b and shape.k % 16 == 0
    large = shape.n * shape.k >= LARGE and shape.k >= LONG_SUM
    most = FRAGMENT if large else FULL_ROWS // 2
    few = shape.m <= (most if by_tma else FULL_ROWS)
    return (few and shape.n * shape.k >= LEAST) or KNOB in knobs


@lru_cache(maxsize=1024)
def beats_tma(shape: Gemm, target: Target) -> bool:
    """Return whether few rows by a b along the sum are streamed faster than by TMA.

    Since TMA loads no rows beyond a it is faster for most b beyond the L2 cache, and for some
    others: 4x11008x4096 took an H200 8.1 us by TMA and 15.5 streamed, 11x39984x2560 28.5 and 35.4,
    16x4096x4096 4.5 and 4.7, but 13x39056x880 9.9 and 8.7, 16x224x5568 3.4 and 2.8. Of 19 products
    the choice takes 0.93 of the time, as the best of both does.
    """
    choice = gemm_half.default_choice(shape, target) if gemm_half.offered(shape, target) else {}
    if not gemm_half.by_boxes(choice):
        return True
    streamed = default_choice(shape, target)
    run = OF_TMA_ALONG_K * float(gemm_tma.estimate(shape, choice, target))
    by_tma = read_cycles(shape, run, FAR_BY_TMA)
    return float(estimate(shape, streamed, target)) < by_tma


def candidates(shape: Gemm) -> dict[str, list[int]]:
    """Return the values each knob may take for a shape."""
    return {**_sizes(shape), l2_resident.KNOB: l2_resident.values(_streamed_bytes(shape))}


def _streamed_bytes(shape: Gemm) -> int:
    """Return the bytes of a b that is loaded in vectors; words of unaligned rows load alike."""
    return shape.n * shape.k * (shape.b_run % 4 == 0)


def _sizes(shape: Gemm) -> dict[str, list[int]]:
    longest = common.ceil_div(shape.k, STEP)
    return {
        # Of aligned rows vectors are whole; words of others are loaded one by one.
        "vec": [4, 8] if shape.transpose_b or shape.n % 8 != 4 else [4],
        "strips": [1, 2],
        # Fewer warps leave a multiprocessor waiting, and larger clusters leave some of them idle.
        "ranges": common.up_to(longest, (1, 2, 4, 8, 16))[-3:],
        "split": common.up_to(longest, (1, 2, 4, CLUSTERED, *MORE)),
        "ahead": [1, 2, 3],
        "frags_m": [FRAGMENTS, MOST_FRAGMENTS][: 1 + (shape.m > FRAGMENT * FRAGMENTS)],
    }


def violation(shape: Gemm, choice: Mapping[str, int], target: Target) -> str | None:
    """Return why a choice cannot run or is sure to be slow, or None."""
    return common.first_broken(_rules(choice, shape, target))


def _rules(choice: Mapping[str, int], shape: Gemm, target: Target) -> list[tuple[bool, str]]:
    """Return the rules of `violation`; choices may be arrays of them."""
    tiling, c = SkinnyTiling(shape, choice), choice
    return [
        (tiling.threads > target.limits.threads_per_block, "too many threads"),
        (tiling.registers > MOST_REGISTERS, "too many registers a thread"),
        (tiling.registers * tiling.threads > REGISTERS, "too many registers"),
        (tiling.shared_bytes > target.limits.shared_bytes_optin, "too much shared memory"),
        (
            tiling.clustered & (not common.clusters_of(target)),
            "no clusters",
        ),
        (
            (c["split"] > 2) & (tiling.tiles[0] * tiling.tiles[1] * c["split"] >= MOST_BLOCKS),
            "more ranges than fill the device",
        ),
        (
            shape.transpose_a & (tiling.frags_m > FRAGMENTS) & (shape.m % 8 == 4),
            "vectors of rows that are not aligned",
        ),
        (tiling.strip * c["strips"] >= 2 * max(shape.n, 64), "columns beyond the output"),
        (c["ahead"] > tiling.steps, "more steps ahead than there are"),
        (tiling.tiles[0] > target.limits.grid_dim[0], "too many blocks"),
        (tiling.tiles[1] > target.limits.grid_dim[1], "too many blocks of rows"),
    ]


def estimate(shape: Gemm, choice: Mapping[str, int], target: Target) -> float:
    """Return a rough number of cycles: of the latency of steps, and of the reduction.

    Its constants are a fit, without negative ones, to 164 choices of 8 products timed on an H200.
    Of those of a product the one with the least estimate took 1.00 to 1.08 times as long as the
    fastest; those of `_along_k_cycles` are one of their own. Choices may be arrays of them.
    """
    tiling, c = SkinnyTiling(shape, choice), choice
    sums = shape.m * shape.n * c["split"]
    adding = tiling.several * (1000 + 45 * c["split"] + 8 * sums / (20 * MULTIPROCESSORS))
    if shape.a_run % 4 > 0 or shape.b_run % 4 > 0:
        return _unaligned_cycles(shape, choice) + adding
    # With many rows results count too: 592x2272x64 tt took an H200 4.3 us, 4.1 by ``mma.sync``.
    written = 2400 + 0.37 * shape.m * shape.n / MULTIPROCESSORS
    written *= shape.m > FULL_ROWS
    if shape.m > FULL_ROWS and not shape.transpose_b:
        return written + _short_cycles(shape, choice) + adding
    if lies_along_k(shape):
        return written + _along_k_cycles(shape, choice) + adding
    each = c["vec"] * (4.2 if shape.transpose_b else 13.5)
    each = each + (40 if shape.transpose_a else 20) * tiling.frags_m
    reducing = 2380 * tiling.clustered + 2.7 * tiling.warps * tiling.rows * c["vec"]
    steps = tiling.steps * (440 + tiling.warps * each)
    cycles: float = tiling.waves * (steps + reducing) + adding + written
    return cycles


def lies_along_k(shape: Gemm) -> bool:
    """Return whether rows of both operands in memory are along the sum."""
    return shape.transpose_b and not shape.transpose_a


def _along_k_cycles(shape: Gemm, choice: Mapping[str, int]) -> float:
    """Return the cycles of operands that are along the sum; choices may be arrays.

    The factors fit 98 choices of 25 products of 1 to 64 rows on an H200; those of the least
    estimate took 1.04 times as long as the fastest, and by the factors of other layouts, which
    knew no reads from memory, 1.07 times.
    """
    tiling, c = SkinnyTiling(shape, choice), choice
    each = 2.3 * c["vec"] + 20 * tiling.frags_m
    steps = tiling.steps * (370 + 41 * c["vec"] + tiling.warps * each)
    reducing = 2380 * tiling.clustered + 2.9 * tiling.warps * tiling.rows * c["vec"]
    cycles: float = 800 + read_cycles(shape, tiling.waves * (steps + reducing), FAR_BYTES)
    return cycles


def read_cycles(shape: Gemm, cycles: float, far_bytes: float) -> float:
    """Return the cycles of a product that reads a b beyond the L2 cache so many bytes a cycle."""
    size = shape.n * shape.k
    far: float = (cycles**4 + (size / far_bytes) ** 4) ** 0.25 if size >= LARGE else cycles
    return far


def _short_cycles(shape: Gemm, choice: Mapping[str, int]) -> float:
    """Return the cycles of short sums, which steps ahead hardly hide; choices may be arrays.

    The factors fit 72 choices of seven products of a b stored as [k, n] on an H200, with an error
    of 7%; those of an a stored as [k, m] took 1.7 times as long.
    """
    tiling, c = SkinnyTiling(shape, choice), choice
    step = (138 * c["vec"] + 65 * tiling.warps) * (1.7 if shape.transpose_a else 1.0)
    cycles: float = tiling.waves * (tiling.steps * step + 2380 * tiling.clustered)
    return cycles


def _unaligned_cycles(shape: Gemm, choice: Mapping[str, int]) -> float:
    """Return the cycles where rows in memory are no multiple of 4, word by word.

    Choices may be arrays of them. The factors fit 170 choices of ten products on an H100, with an
    error of 26%.
    """
    tiling, c = SkinnyTiling(shape, choice), choice
    each = c["vec"] * (16.3 if shape.transpose_b else 6.4) + 10 * tiling.frags_m
    reducing = 3080 * tiling.clustered + 1.9 * tiling.warps * tiling.rows * c["vec"]
    cycles: float = 3200 + tiling.waves * (tiling.steps * (1370 + tiling.warps * each) + reducing)
    return cycles


def default_choice(shape: Gemm, target: Target) -> dict[str, int]:
    """Return a good guess for a shape that was never tuned: the best by estimate."""
    choice = choices.best_of_all(
        _sizes(shape),
        partial(_rules, shape=shape, target=target),
        partial(estimate, shape, target=target),
    )
    streamed = _streamed_bytes(shape)
    aligned = shape.transpose_b and shape.k % l2_resident.SECTOR == 0
    resident = aligned * l2_resident.untuned(streamed, target, MOST_RESIDENT)
    return choice | {l2_resident.KNOB: resident}


def kernel(shape: Gemm, choice: Mapping[str, int], plain: Gemm | None = None) -> SourceKernel:
    """Return the kernel of a choice of knobs, and of many ranges the one that adds their sums.

    Args:
        plain: what is asked for, where ``shape`` is that of padded copies of what is along K.
    """
    tiling, c, asked = SkinnyTiling(shape, choice), choice, plain or shape
    several = bool(tiling.several)
    defines = common.defines(
        **{**l2_resident.in_256ths(_streamed_bytes(shape), c), "frags_m": tiling.frags_m},
        m=shape.m, n=shape.n, k=shape.k,
        rows_k=asked.k, transpose_a=shape.transpose_a,
        transpose_b=shape.transpose_b, threads=tiling.threads, resident=tiling.resident,
        cluster=c["split"] > 1 and not several, reduce_threads=REDUCE_THREADS, int8=1, tf32=0,
        bfloat16=0,
    )  # fmt: skip
    out, size = result_name(asked), shape.m * shape.n
    calls = [call(
        "gemm_skinny_int8", [*first_names(asked), "partial" if several else out],
        (*tiling.tiles, c["split"]), tiling.threads, tiling.shared_bytes,
    )]  # fmt: skip
    if several:
        blocks = common.ceil_div(size, REDUCE_THREADS)
        names = ["partial", out]
        calls.append(call("gemm_skinny_int8_reduce", names, blocks, REDUCE_THREADS, early=True))
    texts = [
        "mma.h", "dependent_launch.h", "transpose_int8.h", "unaligned_words.h",
        l2_resident.TEXT, "gemm_skinny_int8.cu",
    ]  # fmt: skip
    parts = (c["split"], size) if several else None
    return common.cuda_kernel(asked, texts, defines, calls, parts, parts_dtype="int32")
