"""Products of few rows of float32 by a b that is stored as [k, n]: they are bound by memory.

Threads load vectors of neighbouring columns of b straight into registers, a turn ahead, and each
slice of a block, and each block of a cluster, sums some of its rows: so all multiprocessors load,
whatever the columns are.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial

import numpy as np

from autotune import SourceKernel, Target, call
from autotune.errors import TemplateError

from .. import choices, common
from ..occupancy import resident_blocks
from . import l2_resident
from .gemm_shape import Gemm, first_names, result_name

# Rows of a that a thread has sums of, at most: with 9 to 32 these kernels took an H200 1.02 to 2.6
# times as long as others for all of eleven products.
MOST_ROWS = 8
# Elements of a, which each block has in shared memory.
MOST_STAGED = 2**18
# Bytes of b from which on little of it is in the L2 cache when it is read again; bytes that are
# read in a cycle beyond and within it, by a multiprocessor, and columns by which runs are longer.
FAR, FAR_BYTES, NEAR_RUNS, OWN_BYTES, ENDS = 50 * 10**6, 2440, 2945, 51.6, 3.8
# Multiprocessors that clusters of four and more leave idle; cycles in which a cluster joins sums,
# and of each block of clusters beyond so many that a multiprocessor has: 8x36387x259 took an H200
# 19.9 us by 1,138 blocks in pairs, and 12.3 by 569 blocks alone.
LEFT_IDLE, JOINING, CLUSTERED, MANY_BLOCKS = 12, 1094, 200, 4
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
        self.staged = shape.m * (self.turns * self.turn + 4)
        self.parts = self.threads // common.larger(32, c["across"])
        summed = self.parts * shape.m * self.columns
        self.shared_bytes = 4 * common.larger(self.staged, summed)
        self.registers = 2 * c["ahead"] * c["vec"] + shape.m * c["vec"] + 40

    @property
    def resident(self) -> int:
        """How many blocks fit a multiprocessor."""
        return resident_blocks(self.threads, self.registers, self.shared_bytes)


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
    """Return whether a product may run so untuned, if its estimate is the least."""
    if refusal(shape) is not None:
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


def _usual(choice: Mapping[str, int], shape: Gemm, target: Target) -> list[tuple[bool, str]]:
    """Return the rules of choices that are like those the estimate was fitted to."""
    tiling = AcrossTiling(shape, choice)
    return [
        *_rules(choice, shape, target),
        ((tiling.threads < 128) | (tiling.threads > 512), "too few or too many threads"),
    ]


def estimate(shape: Gemm, choice: Mapping[str, int], target: Target) -> float:
    """Return a rough number of cycles: of memory, of the latency of turns, and of the reduction.

    The constants were fitted to the geometric mean of times hot and after 100 MB were written, of
    267 choices of 25 products of 1 to 32 rows on an H200, with an error of 15%; of 560 others of
    93 products those of the least estimate took 1.033 times as long as the fastest raced, and
    without many blocks of clusters 1.047 times. Choices may be arrays.
    """
    tiling, c = AcrossTiling(shape, choice), choice
    # Clusters of four and more leave a tenth of the multiprocessors idle.
    count = common.multiprocessors(target) - LEFT_IDLE * (c["split"] > 2)
    far = weight_bytes(shape) > FAR
    waves = common.ceil_div(tiling.blocks, count * tiling.resident)
    together = common.smaller(tiling.resident, common.ceil_div(tiling.blocks, count))
    # Of a run of columns in a row sectors at both ends are loaded in part.
    run = 4 * tiling.range * (tiling.columns + ENDS * (1 + (shape.n % 8 > 0)))
    own = waves * together * run / OWN_BYTES
    reading = common.larger(own, tiling.blocks * run / (FAR_BYTES if far else NEAR_RUNS))
    waiting = waves * tiling.turns * (460.0 if far else 418.0)
    # Products, and loads of a from shared memory, of which wider vectors of b need fewer.
    products = waves * together * tiling.turns * tiling.turn * tiling.columns * shape.m
    working = products * (0.0112 + 0.0103 / c["vec"])
    cycles: float = (reading**2 + waiting**2 + working**2) ** 0.5
    # Of each thread, to stage elements of a, and to add up sums of lanes and of all slices.
    staging = waves * tiling.staged * 114 / tiling.threads
    lanes = c["vec"] * np.log2(32 / common.smaller(c["across"], 32)) * tiling.threads / 64
    slices = 3.8 * tiling.columns * (tiling.parts + 1) / tiling.threads
    summing = waves * together * shape.m * (lanes + slices)
    many = common.larger(0, common.ceil_div(tiling.blocks, count) - MANY_BLOCKS)
    joining = (waves * JOINING + CLUSTERED * many) * (c["split"] > 1)
    total: float = cycles + 4870 + joining + staging + summing
    return total


def default_choice(shape: Gemm, target: Target) -> dict[str, int]:
    """Return a good guess for a shape that was never tuned: the best by estimate."""
    choice = choices.best_of_all(
        _sizes(shape),
        partial(_usual, shape=shape, target=target),
        partial(estimate, shape, target=target),
    )
    return choice | {l2_resident.KNOB: _resident(shape, target)}


def _resident(shape: Gemm, target: Target) -> int:
    """Return how many megabytes of b stay in the L2 cache untuned.

    Of 48 MB all of it does: 1x17000x700 took an H200 9.3 us so and 13.1 with 8 MB, and 18.5 and
    16.9 after 100 MB were written; but 1x9000x1501, 54 MB, 15.9 and 14.5, and 20.9 and 19.2.
    """
    far = weight_bytes(shape) >= FAR
    return far * l2_resident.untuned(weight_bytes(shape), target, MOST_RESIDENT)


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
