"""The sizes of products of few rows by weights [n, k] that follow from a choice of knobs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from .. import common
from ..rows.rows_shape import DTYPES
from .gemm_cuda import REGISTERS
from .gemm_shape import Gemm
from .matvec_unaligned import UnalignedTiling

# Registers of each lane of a quarter of a multiprocessor, which has up to 16 warps, and warps that
# the quarters have of a warp each.
LANE_REGISTERS, QUARTERS, MOST_WARPS, MOST_BLOCKS = 512, 128, 16, 32
# Registers of a lane beside sums, vectors and addresses of rows of weights.
BASE = 20


class MatvecTiling:
    """The sizes that follow from a shape and a choice of knobs."""

    def __init__(self, shape: Gemm, choice: Mapping[str, int]) -> None:
        c = self.choice = choice
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
        self.sums, self.rows_of_a = c["rows"] * shape.m, shape.m
        read = c["rows"] * (c["vec"] * c["ahead"] + 2) + c["vec"]
        registers = common.smaller(self.sums + read + 34, 255)
        self.registers = common.pick(self.unaligned, other.registers, registers)
        # Rounds of loads that wait for each other, and vectors of a lane in all.
        rounds = common.ceil_div(steps, c["ahead"])
        self.rounds = common.pick(self.unaligned, c["ahead"], rounds)
        self.vectors = common.pick(self.unaligned, c["ahead"] * other.steps, steps)
        # Loads of a lane in a round.
        self.loads = c["rows"] * common.pick(self.unaligned, other.steps, c["ahead"])

    @property
    def needed(self) -> Any:
        """Registers of a lane beside the vectors of a that it holds."""
        c = self.choice
        return self.sums + c["rows"] * (c["ahead"] * c["vec"] + 1) + BASE

    @property
    def warps(self) -> Any:
        """Warps of a quarter of a multiprocessor that hold all rows' vectors of a step of a.

        They are at least those of a block, which may hold fewer.
        """
        each = common.larger(1, self.threads // QUARTERS)
        held = self.needed + self.rows_of_a * self.choice["vec"]
        fit = common.smaller(LANE_REGISTERS // held, MOST_WARPS) // each * each
        return common.larger(each, fit)

    @property
    def left(self) -> Any:
        """Vectors of a that a lane holds, of the registers that its warps have."""
        most = common.smaller(LANE_REGISTERS // self.warps // 8 * 8, 255)
        return (most - self.needed) // self.choice["vec"]

    @property
    def least_blocks(self) -> Any:
        """Blocks that a multiprocessor has, which bounds the registers that nvcc takes.

        Where that is more than a device has room for, as of 1,536 threads on sm_86, ptxas warns
        and leaves the bound out, so that kernels are as without it.
        """
        return common.smaller(self.warps * QUARTERS // self.threads, MOST_BLOCKS)

    @property
    def resident(self) -> int:
        """How many blocks fit a multiprocessor by threads and registers."""
        by_registers = REGISTERS // (self.registers * self.threads)
        least = common.smaller(by_registers, 2048 // self.threads)
        return common.larger(1, common.smaller(least, 32))

    @property
    def shuffles(self) -> Any:
        """How many sums a warp hands over: each step halves those that a lane has."""
        sums, found = self.sums, 0
        for apart in (16, 8, 4, 2, 1):
            halves = self.choice["lanes"] > apart
            sums = common.pick(halves, (sums + 1) // 2, sums)
            found = found + halves * sums
        return found


def weight_bytes(shape: Gemm) -> int:
    """Return the bytes of b."""
    return shape.n * shape.k * DTYPES[shape.dtype]
