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
from .gemm_cuda import REGISTERS, SHARED_BYTES
from .gemm_shape import Gemm, first_names, result_name

# Rows of a that a thread has sums of, at most.
MOST_ROWS = 4
# Elements of a, which each block has in shared memory.
MOST_STAGED = 2**15
# Bytes of b from which on little of it is in the L2 cache when it is read again; bytes that are
# read in a cycle beyond and within it, by a multiprocessor, and columns by which runs are longer.
FAR, FAR_BYTES, NEAR_RUNS, OWN_BYTES, ENDS = 50 * 10**6, 2180, 2520, 51, 3.8
# Multiprocessors that clusters of four and more leave idle.
LEFT_IDLE = 12
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
    """Return whether a product runs so untuned: of one row, which shared memory holds.

    On an H200 of 29 from 1x256x256 to 1x20002x3333 all but five were faster so than by
    `gemm_cuda`, hot and after 100 MB were written together, by up to 1.5 times; 1x2696x4016 took
    1.1 times as long. But 2x3956x4548 24.6 us and 22.2, 4x8996x824 12.4 and 9.5.
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

    The constants were fitted to the geometric mean of times hot and after 100 MB were written, of
    138 choices of 14 products of one row on an H200, with an error of 11%. Choices may be arrays.
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
    all_runs = tiling.blocks * run / (FAR_BYTES if far else NEAR_RUNS)
    # Lanes of a warp that load different rows read them more slowly.
    apart = (16 / common.smaller(c["across"], 16)) ** 0.24
    reading = common.larger(own, all_runs) * apart
    waiting = waves * tiling.turns * (740.0 if far else 440.0)
    working = waves * tiling.turns * tiling.turn * tiling.columns * together * shape.m / 64
    cycles: float = (reading**3 + waiting**3 + working**3) ** (1 / 3)
    summing = 0.002 * tiling.threads * shape.m * c["vec"]
    joining = waves * 1000 * (c["split"] > 1) + 54 * (c["split"] - 1)
    return cycles + 4080 + joining + waves * summing


def default_choice(shape: Gemm, target: Target) -> dict[str, int]:
    """Return a good guess for a shape that was never tuned: the best by estimate."""
    choice = choices.best_of_all(
        _sizes(shape),
        partial(_rules, shape=shape, target=target),
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
