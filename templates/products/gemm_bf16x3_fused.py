"""Products of float32 on Hopper's tensor cores that split floats in the kernel that multiplies.

The arithmetic is that of `gemm_bf16x3`: each float is the sum of three bfloat16. There a kernel
before the product writes the pieces, once for all tiles, which takes longer than the product where
an operand is read for few tiles: of few columns, of long sums, and in batches of small matrices.
Here a block splits what it multiplies:

- The left operand is loaded and split by the threads that multiply it, and never leaves their
  registers. The right one is split by a producer warpgroup, and its pieces are in shared memory.
- Either operand of c may be the left one: swapped, the product is transposed (swap AB).
- Rows need not be aligned: threads load runs of 4, 2 or 1 floats along K, whatever divides a row.
- Any number of blocks split a sum, as many as fill the device; a second kernel, which may begin
  early (programmatic dependent launch), adds their sums. To reduce two to eight within a cluster
  was slower for nearly all products.
- Of images the left operand is the im2col matrix, of which threads gather their elements
  (implicit GEMM).
- A K tile with floats that cannot be split is multiplied by ``fmaf``, in the warps that have it.
- As TF32, which rounds to 11 bits, floats are sums of two bfloat16, which have 16: there are three
  products instead of six. The fourth, of both second pieces, is left out: integers of 9 to 11 bits
  are exact as TF32, but here off by up to 2^-18 of each product. Below 2^-117 pieces lose bits.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial

from autotune import SourceKernel, Target, call

from .. import choices, common
from ..epilogue import Epilogue
from . import gemm_wgmma
from .gemm_mma import FLOAT_STRIP_BYTES
from .gemm_shape import (
    TF32,
    Gemm,
    Product,
    added_together,
    first_names,
    result_name,
    unaligned_rows,
)
from .gemm_wgmma import ARCH, has_wgmma

# Rows of a consumer warpgroup, columns of the widest tile, and floats along K of a K tile.
ROWS, WIDEST, CHUNK = 64, 128, 32
# Registers of a multiprocessor, of a thread of the producer, and of one of a consumer beside its
# sums and the floats that it loads ahead.
REGISTERS, PRODUCER_REGISTERS, OTHER_REGISTERS = 65536, 80, 60
# Shared memory of a multiprocessor.
SHARED_BYTES = 228 * 1024
# Into how many ranges sums are split: with few tiles, as many as fill 132 multiprocessors.
SPLITS = (1, 2, 3, 4, 5, 6, 8, 11, 16, 22, 33, 44, 66)
REDUCE_THREADS = 128
# By how much longer than whole sectors these take to be written.
IN_STRIPS = 0.3
# Exponents of the sum of what a K tile takes of each unit, by pieces. Of two the products take
# about as long as loads: they wait for each other more. It fits 120 choices of 24 products as
# TF32 on an H200, with an error of 12%.
OVERLAPPING = {3: 6, 2: 3}


class FusedTiling:
    """The sizes that follow from a shape and a choice of knobs."""

    def __init__(self, shape: Product, choice: Mapping[str, int]) -> None:
        c = choice
        self.shape, self.choice = shape, choice
        self.pieces = 2 if shape.dtype == TF32 else 3
        self.threads = 128 * (c["groups"] + 1)
        self.tile_m = ROWS * c["groups"]
        self.rows, self.columns = (
            common.pick(c["swapped"], then, otherwise)
            for then, otherwise in ((shape.n, shape.m), (shape.m, shape.n))
        )
        self.blocks = (
            common.ceil_div(self.rows, self.tile_m),
            common.ceil_div(self.columns, c["tile_n"]),
        )
        self.tiles = shape.batch * self.blocks[0] * self.blocks[1]
        self.all_blocks = self.tiles * c["split"]
        self.all_k_tiles = common.ceil_div(shape.k, CHUNK)
        self.k_tiles = common.ceil_div(self.all_k_tiles, c["split"])
        # Pieces of 16 bits, and two more columns against bank conflicts.
        self.stage_bytes = 2 * self.pieces * CHUNK * (c["tile_n"] + 2)
        # Of rows that are no whole sectors of 32 bytes a warp stages strips; channels of a group
        # are parts of rows.
        plain = not shape.by_rows if isinstance(shape, Gemm) else shape.batch == 1
        self.strips = (plain and shape.n % 8 > 0) * (c["swapped"] == 0)
        # Flags of four warps, and two mbarriers a stage.
        self.pipeline_bytes = c["stages"] * (self.stage_bytes + 32)
        self.shared_bytes = self.pipeline_bytes + self.strips * 4 * c["groups"] * FLOAT_STRIP_BYTES
        # Blocks that a multiprocessor has at a time.
        self.resident = 2 - (c["groups"] > 1)
        # Whether operands are contiguous along K, and the floats that a thread loads at once.
        along_k = (1 - shape.transpose_a, shape.transpose_b + 0)
        self.left_along_k = common.pick(c["swapped"], along_k[1], along_k[0])
        self.right_along_k = common.pick(c["swapped"], along_k[0], along_k[1])
        runs = zip(along_k, (shape.a_run, shape.b_run), strict=True)
        self.run = common.widest(*(run for along, run in runs if along)) if any(along_k) else 4
        pairs = (self.rows % 2 == 0) & (not shape.b_apart)
        self.left_run = common.pick(self.left_along_k, self.run, 1 + pairs)
        self.right_run = 1 + self.right_along_k * (self.run > 1)

    @property
    def consumer_registers(self) -> int:
        """Registers of a consumer thread: of those of a block what its producer leaves."""
        free = self.threads * self.entry_registers - 128 * PRODUCER_REGISTERS
        return common.smaller(free // (128 * self.choice["groups"]) // 8 * 8, 240)

    @property
    def entry_registers(self) -> int:
        """Registers of each thread of a block at its start."""
        return REGISTERS // (self.threads * self.resident) // 8 * 8

    @property
    def needed_registers(self) -> int:
        """Registers that a consumer thread needs: sums twice, floats that are loaded ahead."""
        return self.choice["tile_n"] + 16 * self.choice["ahead"] + OTHER_REGISTERS

    def defines(self) -> Mapping[str, int | str]:
        """Return everything the kernel text is parameterised by."""
        s, c = self.shape, self.choice
        size = s.batch * s.m * s.n
        together = s.n if s.epilogue != Epilogue() else size
        knobs = common.defines(
            m=s.m, n=s.n, k=s.k, c_n=s.n, threads=self.threads, resident=self.resident,
            left_extent=self.rows, right_extent=self.columns, left_along_k=self.left_along_k,
            right_along_k=self.right_along_k, run=self.run,
            blocks_m=self.blocks[0], blocks_n=self.blocks[1],
            producer_registers=PRODUCER_REGISTERS, consumer_registers=self.consumer_registers,
            r_vec=added_together(size, together), bfloat16=1, tf32=0, strips=int(self.strips),
            strips_at=self.pipeline_bytes, **c,
        )  # fmt: skip
        return {**knobs, **s.operands(), **gemm_wgmma.product_text(c["tile_n"], loaded=True)}


def widths(columns: int) -> list[int]:
    """Return widths of tiles: the narrowest of each number of tiles across."""
    fragments = common.ceil_div(columns, 8)
    tiles = (common.ceil_div(fragments, width) for width in range(1, WIDEST // 8 + 1))
    return sorted({8 * common.ceil_div(fragments, each) for each in tiles})


def candidates(shape: Product) -> dict[str, list[int]]:
    """Return the values each knob may take for a shape."""
    # An operand that is gathered is the left one.
    swapped = [int(shape.b_apart)] if shape.gathers else [0, 1]
    columns = (widths(shape.n), widths(shape.m))
    return {
        "groups": [1, 2, 3, 4],
        "tile_n": sorted({width for swap in swapped for width in columns[swap]}),
        "stages": [2, 3, 4, 6],
        "ahead": [1, 2, 3],
        "split": common.up_to(max(1, shape.k // (2 * CHUNK)), SPLITS),
        "swapped": swapped,
    }


def violation(shape: Product, choice: Mapping[str, int], target: Target) -> str | None:
    """Return why a choice cannot run or is sure to be slow, or None."""
    return common.first_broken(_rules(choice, shape, target))


def _rules(choice: Mapping[str, int], shape: Product, target: Target) -> list[tuple[bool, str]]:
    """Return the rules of `violation`; choices may be arrays of them."""
    tiling, c = FusedTiling(shape, choice), choice
    return [
        (not has_wgmma(target), "no wgmma"),
        (tiling.needed_registers > tiling.consumer_registers, "too many registers"),
        (tiling.resident * (tiling.shared_bytes + 1024) > SHARED_BYTES, "too much shared memory"),
        (tiling.tile_m >= 2 * common.larger(tiling.rows, ROWS), "rows beyond the output"),
        (c["tile_n"] >= tiling.columns + 8, "columns beyond the output"),
        (c["stages"] > common.larger(tiling.k_tiles, 2), "more stages than K tiles"),
        (c["ahead"] > tiling.k_tiles, "more loads ahead than K tiles"),
        (tiling.all_blocks > 2**31 - 1, "too many blocks"),
    ]


def estimate(shape: Product, choice: Mapping[str, int], target: Target) -> float:
    """Return a rough number of cycles; choices may be arrays of them.

    Factors are those of the least error for 274 choices of 72 products on an H100, which was 9%;
    those of a block and of what it writes once more for 252 of 61 on an H200, with launches that
    overlap: of these choices the one of the least estimate took 1.02 times as long as the fastest.
    """
    tiling, c = FusedTiling(shape, choice), choice
    count = common.multiprocessors(target)
    waves = common.ceil_div(tiling.all_blocks, count * tiling.resident)
    together = common.smaller(tiling.resident, common.ceil_div(tiling.all_blocks, count))
    # The cycles of a K tile: of a warpgroup alone, and of a multiprocessor for its tensor cores,
    # load instructions, and bytes from the L2 cache.
    pairs = tiling.pieces * (tiling.pieces + 1) // 2
    products = 2 * pairs * common.larger(0.68 * c["tile_n"] + 10.4, 34.0)
    loads = 33.4 * c["groups"] * 16 / tiling.left_run
    loads = loads + 21.8 * 8 * common.ceil_div(c["tile_n"], 32) / tiling.right_run
    works = (
        products + 507 + 2 * c["tile_n"],
        together * c["groups"] * products,
        together * loads,
        together * 4 * CHUNK * (tiling.tile_m + c["tile_n"]) / 22.6,
    )
    power = OVERLAPPING[tiling.pieces]
    each = sum(work**power for work in works) ** (1 / power)
    # Rows that are not aligned to sectors of 32 bytes, of pairs of floats; with swapped operands
    # threads write floats one at a time anyway.
    unaligned = (1 - c["swapped"]) * common.pick(tiling.strips, IN_STRIPS, unaligned_rows(shape.n))
    writing = 4 * tiling.tile_m * c["tile_n"] / 12.6 * together * (1 + unaligned)
    # A scheduler issues one instruction a cycle; SiLU has 16 for a number.
    powers = 16 * shape.epilogue.has_powers
    writing = writing + powers * tiling.tile_m * c["tile_n"] / 128 * together
    work = waves * (tiling.k_tiles * each + 200 + writing)
    reading = sum(argument.bytes for argument in shape.arguments()[:2]) / 1760
    sums = c["split"] * shape.batch * shape.m * shape.n
    reducing = (c["split"] > 1) * (500 + 45 * c["split"] + 8 * sums / (20 * count))
    cycles: float = (work**4 + reading**4) ** (1 / 4) + reducing + 1950
    return cycles


def default_choice(shape: Product, target: Target) -> dict[str, int]:
    """Return a good guess for a shape that was never tuned: the best by estimate."""
    options = candidates(shape)
    return choices.best_of_all(
        {**options, "stages": [4, 3, 2], "ahead": [2, 1]},
        partial(_rules, shape=shape, target=target),
        partial(estimate, shape, target=target),
    )


def kernel(shape: Product, choice: Mapping[str, int]) -> SourceKernel:
    """Return the kernel of a choice of knobs, and with split-K the one that adds partial sums."""
    tiling, s, split = FusedTiling(shape, choice), shape, choice["split"]
    a, b, *operands = first_names(s)
    out, size = result_name(s), s.batch * s.m * s.n
    several = split > 1
    names = [a, b, *operands, "partial" if several else out]
    grid = (tiling.tiles, 1, split)
    calls = [call("gemm_bf16x3_fused", names, grid, tiling.threads, tiling.shared_bytes)]
    defines = tiling.defines()
    if several:
        blocks = common.ceil_div(size, REDUCE_THREADS * int(defines["R_VEC"]))
        names = ["partial", *operands, out]
        calls.append(call("gemm_bf16x3_reduce", names, blocks, REDUCE_THREADS, early=True))
    strips = ["float_strips.h"] if tiling.strips else []
    texts = [
        "epilogue.h", "operands.h", "mma.h", "pairs.h", "float_pairs.h", *strips, "barriers.h",
        "dependent_launch.h", "wgmma.h", "packed.h", "wgmma_registers.h",
        f"bf16x{tiling.pieces}_split.h", "gemm_bf16x3_operands.h", "gemm_bf16x3_fused.cu",
    ]  # fmt: skip
    parts = (split, size) if several else None
    return common.cuda_kernel(s, texts, defines, calls, parts, flags=[f"-arch={ARCH}"])
