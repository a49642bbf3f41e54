"""How long products of one to eight rows of float32 by weights [n, k] take, by choice of knobs.

A run is the sum of what it takes to read the weights, of the instructions of the busiest
multiprocessor, with those that add up sums across lanes, of the bytes that it loads from the L2
cache, and of the latency of loads that wait for each other. Where few blocks run, most of it are
loads of a: a lane waits for as many vectors of a step as registers are left for, and after other
data was written for memory at each step, so many lanes for a row of weights win. Choices are
those of the least geometric mean of runs hot and cold, after 100 MB were written.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from autotune import Target

from .. import common
from .gemm_shape import Gemm
from .matvec_tiling import MatvecTiling, weight_bytes

# Bytes of weights from which on little of them is in the L2 cache when they are read again.
FAR = 50 * 10**6
# Floats that a multiprocessor multiplies in a cycle, and bytes that it loads from its L1 cache.
LANES_A_CYCLE, L1_BYTES = 128, 128
# Choices that were raced: groups of a block, vectors of a lane where fewer lanes read a row.
WARP, MOST_GROUPS, LONGEST, MANY_LANES = 32, 16, 24, 512
# Rows of so many bytes share places in the L1 cache, of more than `SOME_ROWS` of a also shorter
# ones, and how much longer choices take that load several steps of them ahead: 8x2048x4096 took an
# H200 8.0 and 13.7 us by one, 9.4 and 15.8 by two, 8x4096x11008 50.0 and 54.2, 51.3 and 60.7.
PITCH, MORE_PITCH, SOME_ROWS, CONFLICTS = 4096, 1024, 4, 1.06
# Rows of weights that a multiprocessor reads at a time, from which on memory is slower.
TOGETHER = 16


@dataclass(frozen=True)
class Factors:
    """Factors of the estimate.

    Attributes:
        far_bytes, near_bytes: of weights that are read in a cycle, beyond and within the L2 cache.
        together: exponent of rows that are read at a time from beyond it.
        product, load: cycles of instructions, of those that `LANES_A_CYCLE` and `L1_BYTES` take.
        shuffle: cycles of a warp that adds up one sum across two halves of its lanes.
        l2_bytes: that a multiprocessor loads in a cycle from the L2 cache.
        kept: bytes of a, of which half are in the L1 cache when the next block loads them.
        far_round, near_round: latency of a round of loads of weights.
        issue: cycles of each load of a round.
        step: latency of loads of a of a step, of as many vectors as registers hold.
        chain: cycles of a sum that is added up, of a wave of blocks.
        alone: cycles of a wave that other blocks of a multiprocessor hide, if there are any.
        first: cycles of a step more when a is not in the L2 cache.
        hot, cold: of a kernel beside its works.
    """

    far_bytes: float
    near_bytes: float
    together: float
    product: float
    load: float
    shuffle: float
    l2_bytes: float
    kept: float
    far_round: float
    near_round: float
    issue: float
    step: float
    chain: float
    alone: float
    first: float
    hot: float
    cold: float


# Fitted to 886 choices of 83 products of one to eight rows, with errors of 10%: of these choices
# those of the least estimate took 1.04 times as long as the fastest.
FITTED = Factors(
    far_bytes=3590, near_bytes=7850, together=0.0419, product=0.229, load=0.302, shuffle=0.999,
    l2_bytes=177, kept=138e3, far_round=20, near_round=276, issue=27.8, step=72.5, chain=0.449,
    alone=241, first=489, hot=1990, cold=3270,
)  # fmt: skip


def rules(tiling: MatvecTiling, choice: Mapping[str, int]) -> list[tuple[bool, str]]:
    """Return the rules of choices that are like those the estimate was fitted to."""
    c = choice
    return [
        ((tiling.threads < 64) | (tiling.threads > 1024), "too few or too many threads"),
        ((c["lanes"] < WARP) & (tiling.steps > 1), "less than a warp for a row"),
        ((c["lanes"] < MANY_LANES) & (tiling.steps > LONGEST), "too many steps"),
        (c["groups"] > MOST_GROUPS, "too many groups"),
        (tiling.left < 1, "too many registers"),
    ]


def estimate(
    shape: Gemm, choice: Mapping[str, int], tiling: MatvecTiling, target: Target
) -> float:
    """Return a rough number of cycles, the geometric mean of runs hot and cold.

    Choices may be arrays.
    """
    count = common.multiprocessors(target)
    hot, cold = (_cycles(shape, choice, tiling, count, state) for state in (False, True))
    mean: float = (hot * cold) ** 0.5
    return mean


def _cycles(
    shape: Gemm, choice: Mapping[str, int], tiling: MatvecTiling, count: int, cold: bool
) -> Any:
    """Return cycles of a run; see `estimate`."""
    c, f = choice, FITTED
    far = cold or weight_bytes(shape) > FAR
    each = common.ceil_div(tiling.blocks, count)  # blocks of the busiest multiprocessor
    waves = common.ceil_div(tiling.blocks, count * tiling.least_blocks)
    rows = common.smaller(tiling.least_blocks, each) * c["rows"] * c["groups"]
    slower = common.larger(1.0, rows / TOGETHER) ** f.together if far else 1.0
    reading = weight_bytes(shape) * slower / (f.far_bytes if far else f.near_bytes)
    # Instructions.
    vectors = tiling.threads * tiling.steps * c["vec"]
    products = f.product * vectors * tiling.sums / LANES_A_CYCLE
    loads = f.load * 4 * vectors * (shape.m + c["rows"]) / L1_BYTES
    working = each * (products + loads + f.shuffle * tiling.shuffles * tiling.threads / 32)
    # Bytes of the L2 cache: those of a again, unless the L1 cache has them.
    of_a = 4 * shape.m * shape.k
    missing = of_a**2 / (of_a**2 + f.kept**2)
    again = of_a * (1 + (each - 1) * missing)
    passing = (each * c["rows"] * c["groups"] * 4 * shape.k + again) / f.l2_bytes
    # Latency.
    latency = f.far_round if far else f.near_round
    rounds = (
        tiling.rounds * (latency + f.issue * c["rows"] * c["ahead"]) + f.chain * tiling.shuffles
    )
    batches = common.larger(1.0, shape.m / common.larger(1, tiling.left))
    steps = tiling.steps * batches * f.step * (1 + (waves - 1) * missing)
    waiting = waves * rounds + steps + (f.first * tiling.steps if cold else 0.0)
    waiting = waiting + waves * f.alone / tiling.least_blocks
    cycles = reading + working + passing + waiting + (f.cold if cold else f.hot)
    pitch = MORE_PITCH if shape.m > SOME_ROWS else PITCH
    in_conflict = (c["ahead"] > 1) * (4 * shape.k % pitch == 0)
    return cycles * common.pick(in_conflict, CONFLICTS, 1.0)
