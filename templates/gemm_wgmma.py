"""Matrix multiplication of 16-bit floats on Hopper's asynchronous tensor cores (``wgmma``).

A warpgroup of four warps multiplies 64 rows by up to 256 columns with one instruction, which reads
both operands from shared memory while the warps go on; ``mma.sync``, which fetches its operands
through registers, reaches about half that rate. What follows from it:

- One warpgroup of a block only copies, the others only multiply. The copies place the operands as
  the instruction wants them (see ``kernels/wgmma.h``), up to ``stages`` chunks of K ahead, and
  barriers in shared memory hand a chunk over and back. Kernels get plain pointers and no tensor
  maps, so the copies are ``cp.async`` of 16 bytes, not those of the bulk copy engine: rows of a
  and b must begin at multiples of 16 bytes.
- The sums stay in registers, to which the copying warps give up most of theirs (``setmaxnreg``).
- Where a shape has too few tiles to fill the device, ``split`` blocks form a cluster, take a range
  of K each, and add up through each other's shared memory.

The knobs are those of `gemm_mma`, and mean the same: a tile has ``warps_m * frags_m * 16`` rows
and ``warps_n * frags_n * 8`` columns. Every warpgroup multiplies all columns of a tile, so
``warps_n`` is 1.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial

from autotune import SourceKernel, Target, call
from autotune.errors import TemplateError

from . import common
from .gemm_shape import HALVES, Gemm

# Architecture-specific code: it runs on compute capability 9.0 and nowhere else.
ARCH = "sm_90a"
# Of a copying thread; the kernel text has the same.
COPY_REGISTERS = 64
# What a multiplying thread needs beside its sums.
OTHER_REGISTERS = 40
# The assembler refuses a product whose sums and this many more exceed the registers at entry.
PRODUCT_REGISTERS = 26


class WgmmaTiling:
    """The sizes that follow from a shape and a choice of knobs."""

    def __init__(self, shape: Gemm, choice: Mapping[str, int]) -> None:
        c = choice
        self.choice, self.groups = choice, common.larger(c["warps_m"] // 4, 1)
        self.threads = 128 * (self.groups + 1)
        self.tile_m, self.tile_n = c["warps_m"] * c["frags_m"] * 16, c["frags_n"] * 8
        chunks = common.ceil_div(shape.k, c["chunk"])
        self.chunks = common.ceil_div(chunks, c["split"])
        self.per_split = c["chunk"] * self.chunks
        self.slot_bytes = 2 * c["chunk"] * (self.tile_m + self.tile_n)
        self.ring_bytes = c["stages"] * self.slot_bytes
        # Two barriers a slot, and room to begin the ring at a multiple of 1024.
        self.shared_bytes = self.ring_bytes + 16 * c["stages"] + 1024
        self.part_bytes = 4 * self.tile_m * (self.tile_n + 8)
        self.blocks = (
            common.ceil_div(shape.m, self.tile_m),
            common.ceil_div(shape.n, self.tile_n),
        )

    def fits(self, resident: int, target: Target) -> bool:
        """Return whether ``resident`` blocks fit a multiprocessor's registers and memory."""
        c, limits = self.choice, target.limits
        entry = limits.registers // (self.threads * resident) // 8 * 8
        for_sums = (entry * (self.groups + 1) - COPY_REGISTERS) // self.groups
        return (
            (c["frags_n"] * 4 + PRODUCT_REGISTERS <= entry)
            & (c["frags_m"] * c["frags_n"] * 4 + OTHER_REGISTERS <= for_sums)
            & (c["frags_m"] * c["frags_n"] * 4 + OTHER_REGISTERS <= 240)
            & (resident * (self.shared_bytes + 1024) <= limits.shared_bytes_optin + 1024)
        )


def offered(shape: Gemm, target: Target) -> bool:
    """Return whether a target has these instructions, and the rows of a shape can be copied."""
    hopper = target.kind == "cuda" and target.arch in (ARCH, ARCH.rstrip("a"))
    matrices = shape.is_plain and shape.dtype in HALVES and (shape.n | shape.k) % 8 == 0
    return hopper and not target.emulate and matrices


def candidates(shape: Gemm) -> dict[str, list[int]]:
    """Return the values each knob may take for a shape."""
    return {
        "warps_m": [4, 8, 12, 16],
        "warps_n": [1],
        "frags_m": [1, 2],
        "frags_n": [8, 16, 24, 32],
        "chunk": [64, 128],
        "stages": [2, 3, 4, 5, 6, 8],
        "split": common.up_to(max(1, shape.k // 64), (1, 2, 4, 8)),
        "band": [1, 4, 8, 16],
    }


def violation(shape: Gemm, choice: Mapping[str, int], target: Target) -> str | None:
    """Return why a choice cannot run or is sure to be slow, or None."""
    tiling, limits, c = WgmmaTiling(shape, choice), target.limits, choice
    rules = [
        (not offered(shape, target), "no wgmma"),
        (tiling.shared_bytes > limits.shared_bytes_optin, "too much shared memory"),
        (tiling.fits(1, target) == 0, "too many registers"),
        (tiling.tile_m >= 2 * max(shape.m, 64), "rows beyond the output"),
        (tiling.tile_n >= 2 * max(shape.n, 64), "columns beyond the output"),
        (c["stages"] > common.larger(tiling.chunks + 1, 2), "stages beyond the chunks"),
        (c["chunk"] >= 2 * max(shape.k, 64), "a chunk beyond the reduction"),
        ((c["split"] > 1) & (tiling.per_split * (c["split"] - 1) >= shape.k), "an empty range"),
        ((c["split"] > 1) & (tiling.part_bytes > tiling.ring_bytes), "parts beyond the ring"),
        ((c["band"] > 1) & (c["band"] >= 2 * tiling.blocks[0]), "a band beyond the output"),
    ]
    return common.first_broken(rules)


def estimate(shape: Gemm, choice: Mapping[str, int], target: Target) -> float:
    """Return a rough number of cycles: the slower of products and copies, and adding up."""
    tiling, c = WgmmaTiling(shape, choice), choice
    multiprocessors = target.limits.sm_count if target.limits.sm_count > 1 else 132
    # A cluster stays within one of the groups that multiprocessors come in, and leaves gaps there.
    multiprocessors -= 4 * c["split"] if c["split"] > 2 else 0
    blocks = tiling.blocks[0] * tiling.blocks[1] * c["split"]
    resident = 2 if tiling.fits(2, target) else 1
    waves = common.ceil_div(blocks, multiprocessors * resident)
    together = min(resident, common.ceil_div(blocks, multiprocessors))
    # 64 x 8 x 16 products take 4 cycles. Of the L2 cache, 42 bytes a cycle reach a multiprocessor.
    products = tiling.groups * c["frags_m"] * c["frags_n"] * 4 * (c["chunk"] // 16)
    copies = tiling.slot_bytes / 42
    # What the ring does not cover of the way to the cache and back: of its slots, one is being
    # multiplied, and the one before is free only when that has begun.
    covered = (c["stages"] - 2) * max(products, copies) * together
    waiting = max(0.0, 1200 - covered) / max(c["stages"] - 1, 1)
    work = tiling.chunks * (max(products, copies) * together + waiting)
    adding = 2000 + tiling.part_bytes * c["split"] / 20 if c["split"] > 1 else 0.0
    return waves * (work + 3000 + adding)


def default_choice(shape: Gemm, target: Target) -> dict[str, int]:
    """Return a good guess for a shape that was never tuned: the best of a fixed sample."""
    return common.best_drawn(
        candidates(shape),
        5000,
        partial(violation, shape, target=target),
        partial(estimate, shape, target=target),
    )


def kernel(shape: Gemm, choice: Mapping[str, int]) -> SourceKernel:
    """Return the kernel of a choice of knobs.

    Raises:
        TemplateError: rows of the matrices do not begin at a multiple of 16 bytes.
    """
    if shape.n % 8 or shape.k % 8:
        raise TemplateError(
            f"gemm_nn of {shape.dtype} by wgmma: n and k must be multiples of 8, got {shape}"
        )
    tiling, c = WgmmaTiling(shape, choice), choice
    hopper = Target(f"cuda -arch={ARCH}")
    defines = common.defines(
        m=shape.m, n=shape.n, k=shape.k, threads=tiling.threads, k_per_split=tiling.per_split,
        resident=2 if tiling.fits(2, hopper) else 1, cluster=c["split"] > 1,
        bfloat16=shape.dtype == "bfloat16", **choice,
    )  # fmt: skip
    grid = (tiling.blocks[0] * tiling.blocks[1], 1, c["split"])
    run = call("gemm_wgmma", ["a", "b", "c"], grid, tiling.threads, tiling.shared_bytes)
    texts = ["mma.h", "wgmma.h", "gemm_wgmma.cu"]
    return common.cuda_kernel(shape, texts, defines, [run], flags=[f"-arch={ARCH}"])
