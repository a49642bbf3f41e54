"""Products of few rows of float32 by a b that is stored as [k, n]: they are bound by memory.

Threads load vectors of neighbouring columns of b straight into registers, a turn ahead, and each
slice of a block, and each block of a cluster, sums some of its rows: so all multiprocessors load,
whatever the columns are.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial

from autotune import SourceKernel, Target, call
from autotune.errors import TemplateError

from .. import choices, common
from . import l2_resident
from .gemm_cuda import MEMORY_BYTES, NEAR_BYTES, REGISTERS, SHARED_BYTES
from .gemm_shape import Gemm, first_names, result_name

# Rows of a that a thread has sums of, at most.
MOST_ROWS = 4
# Elements of a, which each block has in shared memory.
MOST_STAGED = 2**15
# Bytes of a b beyond the L2 cache that are read in a cycle in long runs, and columns of a run by
# which the share of its time grows that is lost.
FAR_BYTES, OPENING = 2250, 5.8
# Bytes of b up to which a part stays in the cache untuned: 1x50256x1024, four in turn, took an
# H200 51.0 us instead of 49.7, but 1x11008x4096 44.9 instead of 47.8.
MOST_RESIDENT = 200_000_000
TEXTS = ("epilogue.h", "operands.h", l2_resident.TEXT, "matvec_across.cu")
# What a choice has of a log that is older than a knob.
ADDED = l2_resident.ADDED


class AcrossTiling:
    """The sizes that follow from a shape and a choice of knobs."""

    def __init__(self, shape: Gemm, choice: Mapping[str, int]) -> None:
        c = choice
        self.threads = c["across"] * c["along"]
        self.columns = c["across"] * c["vec"]
        self.turn = c["along"] * c["ahead"]
        self.range = common.ceil_div(shape.k, c["split"])
        self.turns = common.ceil_div(self.range, self.turn)
        self.tiles = common.ceil_div(shape.n, self.columns)
        self.blocks = self.tiles * c["split"]
        staged = shape.m * (self.turns * self.turn + 4)
        parts = self.threads // common.larger(32, c["across"])
        self.shared_bytes = 4 * (staged + parts * shape.m * self.columns)
        self.registers = 2 * c["ahead"] * c["vec"] + shape.m * c["vec"] + 40

    @property
    def resident(self) -> int:
        """How many blocks fit a multiprocessor."""
        by_registers = REGISTERS // (self.registers * self.threads)
        by_memory = SHARED_BYTES // (self.shared_bytes + 1024)
        least = common.smaller(common.smaller(by_registers, by_memory), 2048 // self.threads)
        return common.larger(1, least)


def refusal(shape: Gemm) -> str | None:
    """Return why this kernel cannot serve a shape, or None."""
    rules = [
        (shape.dtype != "float32", "operands must be float32"),
        (shape.m > MOST_ROWS, f"more than {MOST_ROWS} rows"),
        (shape.batch > 1, "there must be one matrix"),
        (shape.m * shape.k > MOST_STAGED, f"a of more than {MOST_STAGED} elements"),
        (shape.transpose_b, "b must be stored as [k, n]"),
        (shape.by_rows, "channels must be columns"),
    ]
    return common.first_broken(rules)


def suits(shape: Gemm, target: Target) -> bool:
    """Return whether a product can run so untuned: of one row, which shared memory holds.

    On an H200 1x6042x2003 took 13.5 us so and 16.5 by `gemm_cuda`, 1x1276x3900 6.5 and 7.9; but
    2x3956x4548 24.6 and 22.2, 4x8996x824 12.4 and 9.5.
    """
    if shape.m > 1 or refusal(shape) is not None:
        return False
    return violation(shape, default_choice(shape, target), target) is None


def candidates(shape: Gemm) -> dict[str, list[int]]:
    """Return the values each knob may take for a shape."""
    return {**_sizes(shape), l2_resident.KNOB: l2_resident.values(weight_bytes(shape))}


def weight_bytes(shape: Gemm) -> int:
    """Return the bytes of b."""
    return 4 * shape.n * shape.k


def _sizes(shape: Gemm) -> dict[str, list[int]]:
    return {
        "vec": [v for v in (1, 2, 4) if shape.n % v == 0],
        "across": [4, 8, 16, 32, 64, 128],
        "along": [1, 2, 4, 8, 16, 32, 64],
        "ahead": [4, 8],
        "split": common.up_to(shape.k, (1, 2, 4, 8)),
    }


def violation(shape: Gemm, choice: Mapping[str, int], target: Target) -> str | None:
    """Return why a choice cannot run or is sure to be slow, or None."""
    return common.first_broken(_rules(choice, shape, target))


def _rules(choice: Mapping[str, int], shape: Gemm, target: Target) -> list[tuple[bool, str]]:
    """Return the rules of `violation`; choices may be arrays of them."""
    tiling, c = AcrossTiling(shape, choice), choice
    return [
        *common.limit_rules(tiling, target.limits),
        ((tiling.threads < 64) | (tiling.threads > 1024), "too few or too many threads"),
        ((c["split"] > 1) & (not common.clusters_of(target)), "no clusters"),
        ((tiling.turn > 64) & (tiling.turn >= 2 * tiling.range), "turns beyond the reduction"),
        (tiling.columns >= 2 * max(shape.n, 64), "columns beyond the output"),
    ]


def estimate(shape: Gemm, choice: Mapping[str, int], target: Target) -> float:
    """Return a rough number of cycles: of memory, of the latency of turns, and of the reduction.

    The constants were fitted to products of one row by 4096x4096, 2003x6042, 1192x1771 and
    1213x15092 on an H200. Of 7 to 13 choices each for ten, the one of the least estimate took 1.00
    to 1.11 times as long as the fastest. Those of a b beyond the L2 cache whose rows are not
    aligned to 16 bytes are a fit to 55 choices of four, by which six of seven others and of these
    were 1.17 to 1.24 times as fast.
    Choices may be arrays of them.
    """
    tiling, c = AcrossTiling(shape, choice), choice
    count, size = common.multiprocessors(target), 4 * shape.n * shape.k
    far = size > NEAR_BYTES
    waves = common.ceil_div(tiling.blocks, count * tiling.resident)
    together = common.smaller(tiling.resident, common.ceil_div(tiling.blocks, count))
    clustered = c["split"] > 1
    own = waves * together * 4 * tiling.range * tiling.columns / 40
    apart, turn = 16 / common.smaller(c["across"], 16), 800.0 if far else 210.0
    if far and shape.n % 4 > 0:
        # Short runs of rows that are not aligned read some sectors twice.
        runs = (1 + OPENING / tiling.columns) * (0.9 + 0.1 * apart)
        reading = common.larger(size / FAR_BYTES * runs, own)
        turn = 610.0
    else:
        # Lanes of a warp that load different rows read them more slowly, and so do short runs.
        runs = apart**0.15 * (32 / common.smaller(tiling.columns, 32)) ** 0.1
        reading = (size / MEMORY_BYTES if far else own) * runs * (1 + 0.06 * clustered)
    waiting = waves * tiling.turns * turn
    working = waves * tiling.turns * tiling.turn * tiling.columns * together * shape.m / 64
    cycles: float = (reading**3 + waiting**3 + working**3) ** (1 / 3)
    summing = 0.1 * tiling.threads * shape.m * c["vec"]
    return cycles + (2500 if far else 4500) + waves * (1200 * clustered + summing)


def default_choice(shape: Gemm, target: Target) -> dict[str, int]:
    """Return a good guess for a shape that was never tuned: the best by estimate.

    Of choices that are as good, lanes with the widest vectors count: a warp reads one run.
    """
    options = _sizes(shape)
    choice = choices.best_of_all(
        options | {"vec": options["vec"][::-1]},
        partial(_rules, shape=shape, target=target),
        partial(estimate, shape, target=target),
    )
    return choice | {l2_resident.KNOB: _resident(shape, target)}


def _resident(shape: Gemm, target: Target) -> int:
    """Return how many megabytes of b stay in the L2 cache untuned.

    Sectors of rows that are not aligned to them are read twice, by neighbouring blocks: loaded
    evict first 1x4262x18887 took an H200 85 us instead of 83.
    """
    aligned = 4 * shape.n % l2_resident.SECTOR == 0
    return aligned * l2_resident.untuned(weight_bytes(shape), target, MOST_RESIDENT)


def kernel(shape: Gemm, choice: Mapping[str, int]) -> SourceKernel:
    """Return the kernel of a choice of knobs.

    Raises:
        TemplateError: this kernel cannot serve the shape; the message says why.
    """
    if reason := refusal(shape):
        raise TemplateError(f"matvec by columns: {reason}, got {shape}")
    tiling = AcrossTiling(shape, choice)
    defines: dict[str, int | str] = {
        **shape.operands(),
        **common.defines(
            m=shape.m, n=shape.n, k=shape.k, threads=tiling.threads, range=tiling.range,
            cluster=choice["split"] > 1, **l2_resident.in_256ths(weight_bytes(shape), choice),
        ),
    }  # fmt: skip
    names = [*first_names(shape), result_name(shape)]
    grid = (tiling.tiles, 1, choice["split"])
    calls = [call("matvec_across", names, grid, tiling.threads, tiling.shared_bytes)]
    return common.cuda_kernel(shape, TEXTS, defines, calls)
