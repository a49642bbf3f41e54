"""Products of float32 on Hopper's tensor cores: each float as the sum of three of bfloat16.

A float32 has 24 binary digits and a bfloat16 8, with the same exponents: every float32 is the sum
of three bfloat16, each the nearest to the remainder of the ones before. The nine products of two
such sums are exact in float32, and tensor cores compute them some fifteen times as fast as the
floating-point units compute one. What follows from it:

- A kernel before the product splits both operands, and packs the pieces in their layout in shared
  memory, padded with zeros. So one bulk copy of TMA loads each tile of an operand, whatever the
  extents and layouts of the operands.
- Tensor cores truncate, rather than round, what they accumulate: long sums would be too small. So
  they sum one K tile only, the small products first, and these sums are added in float32. The
  result is nearer to the exact one than that of a chain of ``fmaf``.
- The three smallest products, of second and third pieces, are left out. Together they are at most
  2^-25 of the product, half of the largest error of rounding it to a float32, and mostly far less.
  With all nine, sums had the same errors to two digits, and took 1.4 times as long (one H200, CUDA
  13.0, sums of 32 to 4096 products, uniform, normal, and spread over 40 binary orders of
  magnitude).
- Some floats cannot be multiplied so: infinities, NaNs, those of 2^56 and more, whose sums could
  overflow, and those under 2^-110 with digits that bfloat16 lacks. Where a tile of an
  operand has one, the tiles of the result that depend on it are multiplied by ``fmaf``, which is
  slow, but has the results and errors of float32.

Henry, Tang and Heinecke, "Leveraging the bfloat16 Artificial Intelligence Datatype For
Higher-Precision Computations", 2019, has the method, with six and nine products. cuBLAS has the
latter as "BF16x9" for devices after this one (its documentation, "Floating Point Emulation").
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import partial

from autotune import SourceKernel, Target, call, workspace

from .. import choices, common
from . import gemm_tma_tiling, gemm_wgmma
from .gemm_shape import Gemm, first_names, result_name, unaligned_rows
from .gemm_wgmma import ARCH

# Of the nine, the largest so many.
PRODUCTS = 6
# Widest tiles whose products fit the registers beside the sums; of wider ones half at a time.
MOST_AT_ONCE = 192
# Rows of a tile: two warpgroups multiply 64 each.
TILE_M = 128
THREADS, PACK_THREADS = 384, 256
# Three pieces of 16 bits.
ITEM_BYTES = 6


class Bf16x3Tiling:
    """The sizes that follow from a shape and a choice of knobs."""

    def __init__(self, shape: Gemm, choice: Mapping[str, int]) -> None:
        c = choice
        self.shape, self.choice = shape, choice
        # Columns that are multiplied at a time.
        self.part_n = common.pick(c["tile_n"] > MOST_AT_ONCE, c["tile_n"] // 2, c["tile_n"])
        self.k_tiles = common.ceil_div(common.ceil_div(shape.k, c["chunk"]), c["split"])
        self.per_split = c["chunk"] * self.k_tiles
        self.a_bytes = ITEM_BYTES * TILE_M * c["chunk"]
        self.b_bytes = ITEM_BYTES * c["tile_n"] * c["chunk"]
        self.pipeline_bytes = c["stages"] * (self.a_bytes + self.b_bytes)
        # Two mbarriers a stage.
        self.shared_bytes = self.pipeline_bytes + 16 * c["stages"]
        self.part_bytes = 4 * TILE_M * (c["tile_n"] + 8)
        self.blocks = (common.ceil_div(shape.m, TILE_M), common.ceil_div(shape.n, c["tile_n"]))
        of_a, of_b = self.counts
        all_k_tiles = c["split"] * self.k_tiles
        self.a_tiles = of_a * self.blocks[0] * all_k_tiles
        self.b_tiles = of_b * self.blocks[1] * all_k_tiles
        # Of the product.
        self.all_blocks = shape.batch * self.blocks[0] * self.blocks[1] * c["split"]

    @property
    def counts(self) -> tuple[int, int]:
        """How many matrices a and b have."""
        of_a, of_b = (1 if name == self.shape.shared else self.shape.batch for name in "ab")
        return of_a, of_b

    def defines(self, products: int) -> Mapping[str, int | str]:
        """Return everything the kernel text is parameterised by."""
        s, c = self.shape, self.choice
        (of_a, of_b), (down, across) = self.counts, self.blocks
        knobs = common.defines(
            m=s.m, n=s.n, k=s.k, c_n=s.n, tile_m=TILE_M, part_n=self.part_n, threads=THREADS,
            k_tiles=self.k_tiles, a_count=of_a, b_count=of_b, a_bytes=self.a_bytes,
            b_bytes=self.b_bytes, blocks_m=down, blocks_n=across, cluster=c["split"] > 1,
            products=products, bfloat16=1, tf32=0, **{name: c[name] for name in candidates(s)},
        )  # fmt: skip
        return {**knobs, **s.operands(), **gemm_wgmma.product_text(self.part_n)}


def candidates(shape: Gemm) -> dict[str, list[int]]:
    """Return the values each knob may take for a shape."""
    return {
        "tile_n": sorted(
            {8 * width for width in gemm_tma_tiling.widths(shape.n) if width <= 24} | {256}
        ),
        "chunk": [32, 64],
        "stages": [2, 3, 4],
        "in_turn": [0, 1],
        "split": common.up_to(max(1, shape.k // 128), (1, 2, 4)),
        "band": [1, 4, 8, 16],
    }


def violation(shape: Gemm, choice: Mapping[str, int], target: Target) -> str | None:
    """Return why a choice cannot run or is sure to be slow, or None."""
    return common.first_broken(_rules(choice, shape, target))


def _rules(choice: Mapping[str, int], shape: Gemm, target: Target) -> list[tuple[bool, str]]:
    """Return the rules of `violation`; choices may be arrays of them."""
    tiling, c = Bf16x3Tiling(shape, choice), choice
    split = c["split"] > 1
    return [
        (tiling.shared_bytes > target.limits.shared_bytes_optin, "too much shared memory"),
        (c["tile_n"] >= 2 * max(shape.n, 64), "columns beyond the output"),
        (c["stages"] > common.larger(tiling.k_tiles + 1, 2), "more stages than K tiles"),
        (split & (tiling.per_split * (c["split"] - 1) >= shape.k), "an empty range"),
        (
            split & (tiling.part_bytes > tiling.pipeline_bytes),
            "sums beyond the stages",
        ),
        ((c["band"] > 1) & (c["band"] >= 2 * tiling.blocks[0]), "a band beyond the output"),
        (tiling.all_blocks > 2**31 - 1, "too many blocks"),
        (tiling.a_tiles + tiling.b_tiles > 2**31 - 1, "too many blocks"),
    ]


def estimate(
    shape: Gemm, choice: Mapping[str, int], target: Target, longer: float | None = None
) -> float:
    """Return a rough number of cycles: the slower of products and loads, packing, reduction.

    Choices may be arrays of them. Factors are those of the least error for 550 choices of 97
    products on an H200, which was 15%.

    Args:
        longer: how much longer results are written than aligned ones, in parts; `unaligned_rows`
            if None.
    """
    longer = unaligned_rows(shape.n) if longer is None else longer
    tiling, c = Bf16x3Tiling(shape, choice), choice
    count = common.multiprocessors(target)
    # A cluster runs within one GPC, and leaves some of its multiprocessors idle.
    waves = common.ceil_div(tiling.all_blocks, count - 4 * c["split"] * (c["split"] > 2))
    # A multiprocessor does 2048 multiply-adds a cycle, and loads some 50 bytes from the L2 cache.
    products = (0.94 - 0.02 * c["in_turn"]) * PRODUCTS * TILE_M * c["tile_n"] * c["chunk"] / 2048
    loads = (tiling.a_bytes + tiling.b_bytes) / 52
    reducing = (800 + 200 * c["split"]) * (c["split"] > 1)
    writing = 4 * TILE_M * c["tile_n"] / 12.4 * (1 + longer)
    # Packing reads 4 bytes for 6 that it writes.
    packed = (tiling.a_tiles * tiling.a_bytes + tiling.b_tiles * tiling.b_bytes) * 10 / ITEM_BYTES
    work = tiling.k_tiles * common.larger(products, loads) + 2360 + reducing + writing
    cycles: float = waves * work + 2670 + packed / (19.7 * count)
    return cycles


def default_choice(shape: Gemm, target: Target) -> dict[str, int]:
    """Return a good guess for a shape that was never tuned: the best by estimate.

    Longer K tiles took longer in all of 16 pairs of configurations.
    """
    options = candidates(shape)
    down = common.ceil_div(shape.m, TILE_M)
    options |= {
        "chunk": [32],
        "stages": [4, 3, 2],
        "band": [max(band for band in (1, 4, 8) if band < 2 * down)],
    }
    return choices.best_of_all(
        options,
        partial(_rules, shape=shape, target=target),
        partial(estimate, shape, target=target),
    )


def kernel(shape: Gemm, choice: Mapping[str, int], products: int = PRODUCTS) -> SourceKernel:
    """Return the kernels of a choice of knobs: splitting, and the product.

    Args:
        products: how many of the nine, the largest first.
    """
    tiling = Bf16x3Tiling(shape, choice)
    a, b, *operands = first_names(shape)
    packed = ["packed_a", "packed_b"]
    tiles, blocks = (tiling.a_tiles, tiling.b_tiles), tiling.all_blocks // choice["split"]
    names = [*packed, "flags", a, b, *operands, result_name(shape)]
    grid = (blocks, 1, choice["split"])
    calls = [
        call("pack_bf16x3", [a, b, *packed, "flags"], sum(tiles), PACK_THREADS),
        call("gemm_bf16x3", names, grid, THREADS, tiling.shared_bytes, early=True),
    ]
    texts = [
        "epilogue.h", "operands.h", "mma.h", "pairs.h", "float_pairs.h", "barriers.h",
        "dependent_launch.h", "wgmma.h", "packed.h", "pack_bf16x3.cu", "gemm_bf16x3.cu",
    ]  # fmt: skip
    source = common.cuda_kernel(
        shape, texts, tiling.defines(products), calls, flags=[f"-arch={ARCH}"]
    )
    sizes = (tiles[0] * tiling.a_bytes // 2, tiles[1] * tiling.b_bytes // 2)
    pieces = [workspace(n, (size,), "bfloat16") for n, size in zip(packed, sizes, strict=True)]
    return replace(source, workspace=[*pieces, workspace("flags", (sum(tiles),), "int32")])
