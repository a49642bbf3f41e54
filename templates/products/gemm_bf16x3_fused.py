"""Products of float32 on Hopper's tensor cores that split floats in the kernel that multiplies.

The arithmetic is that of `gemm_bf16x3`: each float is the sum of three bfloat16. There a kernel
before the product writes the pieces, once for all tiles, which takes longer than the product where
an operand is read for few tiles: of few columns, of long sums, and in batches of small matrices.
Here a block splits what it multiplies:

- The left operand is loaded and split by the threads that multiply it, and never leaves their
  registers. The right one is split by a producer warpgroup, and its pieces are in shared memory.
- Either operand of c may be the left one: swapped, the product is transposed (swap AB).
- Rows need not be aligned: threads load runs of 4, 2 or 1 floats along K, whatever divides a row.
- Any number of blocks split a sum, as many as fill the device. They are a cluster, and reduce
  through distributed shared memory, or a second kernel, which may begin early (programmatic
  dependent launch), adds their sums.
- A K tile with floats that cannot be split is multiplied by ``fmaf``, in the warps that have it.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial

from autotune import SourceKernel, Target, call

from .. import common
from ..epilogue import Epilogue
from . import gemm_wgmma
from .gemm_shape import Gemm, first_names, result_name
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
# Blocks of a cluster, at most.
CLUSTERED = 8


class FusedTiling:
    """The sizes that follow from a shape and a choice of knobs."""

    def __init__(self, shape: Gemm, choice: Mapping[str, int]) -> None:
        c = choice
        self.shape, self.choice = shape, choice
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
        # Three pieces of 16 bits, columns padded by two cells of 16 bytes; flags and two mbarriers.
        self.stage_bytes = 6 * CHUNK * (c["tile_n"] + 2)
        # The partial sums of a cluster are stored over the stages, as padded rows of c.
        part_m, part_n = (
            common.pick(c["swapped"], then, otherwise)
            for then, otherwise in ((c["tile_n"], self.tile_m), (self.tile_m, c["tile_n"]))
        )
        part_bytes = c["cluster"] * 4 * part_m * (part_n + 4)
        self.buffer_bytes = common.larger(c["stages"] * self.stage_bytes, part_bytes)
        self.shared_bytes = self.buffer_bytes + 32 * c["stages"]
        # Blocks that a multiprocessor has at a time.
        self.resident = 2 - (c["groups"] > 1)

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
        # Whether operands are contiguous along K: the left one, and the right one.
        along = (not s.transpose_a, s.transpose_b)
        left, right = along[::-1] if c["swapped"] else along
        together = s.n if s.epilogue != Epilogue() else s.batch * s.m * s.n
        knobs = common.defines(
            m=s.m, n=s.n, k=s.k, c_n=s.n, threads=self.threads, resident=self.resident,
            left_extent=self.rows, right_extent=self.columns, left_along_k=left,
            right_along_k=right, run=common.widest(s.k) if left or right else 4,
            blocks_m=self.blocks[0], blocks_n=self.blocks[1],
            producer_registers=PRODUCER_REGISTERS, consumer_registers=self.consumer_registers,
            r_vec=common.widest(together), buffer_bytes=self.buffer_bytes, bfloat16=1, tf32=0, **c,
        )  # fmt: skip
        return {**knobs, **s.operands(), **gemm_wgmma.product_text(c["tile_n"], loaded=True)}


def widths(columns: int) -> list[int]:
    """Return widths of tiles: the narrowest of each number of tiles across."""
    fragments = common.ceil_div(columns, 8)
    every = {common.ceil_div(fragments, tiles) for tiles in range(1, fragments + 1)}
    return [8 * width for width in sorted(every) if 8 * width <= WIDEST]


def candidates(shape: Gemm) -> dict[str, list[int]]:
    """Return the values each knob may take for a shape."""
    return {
        "groups": [1, 2, 3, 4],
        "tile_n": sorted({*widths(shape.n), *widths(shape.m)}),
        "stages": [2, 3, 4, 6],
        "ahead": [1, 2, 3],
        "split": common.up_to(max(1, shape.k // (2 * CHUNK)), SPLITS),
        "swapped": [0, 1],
        "cluster": [0, 1],
    }


def violation(shape: Gemm, choice: Mapping[str, int], target: Target) -> str | None:
    """Return why a choice cannot run or is sure to be slow, or None."""
    return common.first_broken(_rules(choice, shape, target))


def _rules(choice: Mapping[str, int], shape: Gemm, target: Target) -> list[tuple[bool, str]]:
    """Return the rules of `violation`; choices may be arrays of them."""
    tiling, c = FusedTiling(shape, choice), choice
    return [
        (not has_wgmma(target), "no wgmma"),
        (tiling.needed_registers > tiling.consumer_registers, "too many registers"),
        (tiling.resident * (tiling.shared_bytes + 1024) > SHARED_BYTES, "too much shared memory"),
        (tiling.tile_m >= 2 * common.larger(tiling.rows, ROWS), "rows beyond the output"),
        (c["tile_n"] >= tiling.columns + 8, "columns beyond the output"),
        (c["stages"] > common.larger(tiling.k_tiles, 2), "more stages than K tiles"),
        (
            (c["cluster"] > 0) & ((c["split"] == 1) | (c["split"] > CLUSTERED)),
            "cluster of that size",
        ),
        (c["ahead"] > tiling.k_tiles, "more loads ahead than K tiles"),
        (tiling.all_blocks > 2**31 - 1, "too many blocks"),
    ]


def estimate(shape: Gemm, choice: Mapping[str, int], target: Target) -> float:
    """Return a rough number of cycles; choices may be arrays of them."""
    tiling, c = FusedTiling(shape, choice), choice
    count = common.multiprocessors(target)
    waves = common.ceil_div(tiling.all_blocks, count * tiling.resident)
    together = common.smaller(tiling.resident, common.ceil_div(tiling.all_blocks, count))
    fragments = c["tile_n"] // 8
    # Cycles of tensor cores for the products of a K tile of 64 rows, and of a warpgroup alone.
    products = 12 * common.larger(5.55 * fragments + 4, 34.0)
    alone = products + 330 + 2 * c["tile_n"]
    loads = 4 * CHUNK * (tiling.tile_m + c["tile_n"]) / 40
    busy = together * common.larger(c["groups"] * products, loads)
    each = common.larger(common.larger(alone, busy), 1300.0 / c["ahead"])
    results = shape.batch * shape.m * shape.n
    writing = 4 * tiling.tile_m * c["tile_n"] / 12.4 * together
    reducing = (c["split"] > 1) * (2000 + 8 * c["split"] * results / (20 * count))
    cycles: float = waves * (tiling.k_tiles * each + 2400 + writing) + reducing + 2000
    return cycles


def default_choice(shape: Gemm, target: Target) -> dict[str, int]:
    """Return a good guess for a shape that was never tuned: the best by estimate."""
    options = candidates(shape)
    return common.best_of_all(
        {**options, "stages": [4, 3, 2], "ahead": [2, 1]},
        partial(_rules, shape=shape, target=target),
        partial(estimate, shape, target=target),
    )


def kernel(shape: Gemm, choice: Mapping[str, int]) -> SourceKernel:
    """Return the kernel of a choice of knobs, and with split-K the one that adds partial sums."""
    tiling, s, split = FusedTiling(shape, choice), shape, choice["split"]
    a, b, *operands = first_names(s)
    out, size = result_name(s), s.batch * s.m * s.n
    several = split > 1 and not choice["cluster"]
    names = [a, b, *operands, "partial" if several else out]
    grid = (tiling.tiles, 1, split)
    calls = [call("gemm_bf16x3_fused", names, grid, tiling.threads, tiling.shared_bytes)]
    defines = tiling.defines()
    if several:
        blocks = common.ceil_div(size, REDUCE_THREADS * int(defines["R_VEC"]))
        names = ["partial", *operands, out]
        calls.append(call("gemm_bf16x3_reduce", names, blocks, REDUCE_THREADS, early=True))
    texts = [
        "epilogue.h", "operands.h", "mma.h", "pairs.h", "float_pairs.h", "barriers.h",
        "dependent_launch.h", "wgmma.h", "packed.h", "wgmma_registers.h", "bf16x3_split.h",
        "gemm_bf16x3_fused.cu",
    ]  # fmt: skip
    parts = (split, size) if several else None
    return common.cuda_kernel(s, texts, defines, calls, parts, flags=[f"-arch={ARCH}"])
