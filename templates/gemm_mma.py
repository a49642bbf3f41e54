"""Matrix multiplication of 16-bit floats on tensor cores, with sums in float32."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial

from autotune import SourceKernel, Target, call
from autotune.errors import TemplateError

from . import common
from .gemm_shape import Gemm

DTYPES = ("float16", "bfloat16")


class MmaTiling:
    """The sizes that follow from a shape and a choice of knobs."""

    def __init__(self, shape: Gemm, choice: Mapping[str, int]) -> None:
        c = choice
        self.threads = 32 * c["warps_m"] * c["warps_n"]
        self.tile_m = c["warps_m"] * c["frags_m"] * 16
        self.tile_n = c["warps_n"] * c["frags_n"] * 8
        # A multiple of 8 keeps the ranges of a split aligned for 16-byte copies.
        self.per_split = 8 * common.ceil_div(common.ceil_div(shape.k, c["split"]), 8)
        self.chunks = common.ceil_div(self.per_split, c["chunk"])
        staged = self.tile_m * (c["chunk"] + 8) + c["chunk"] * (self.tile_n + 8)
        self.shared_bytes = 2 * c["stages"] * staged
        self.blocks = (
            common.ceil_div(shape.m, self.tile_m),
            common.ceil_div(shape.n, self.tile_n),
        )
        sums = 4 * c["frags_m"] * c["frags_n"]
        self.registers = sums + 2 * (4 * c["frags_m"] + 2 * c["frags_n"]) + 32


def candidates(shape: Gemm) -> dict[str, list[int]]:
    """Return the values each knob may take for a shape."""
    return {
        "warps_m": [1, 2, 4],
        "warps_n": [1, 2, 4],
        "frags_m": [1, 2, 4, 8],
        "frags_n": [2, 4, 8, 16],
        "chunk": [16, 32, 64, 128],
        "stages": [2, 3, 4, 5],
        "split": common.up_to(max(1, shape.k // 64), (1, 2, 4, 8, 16)),
        "band": [1, 4, 8, 16],
    }


def violation(shape: Gemm, choice: Mapping[str, int], target: Target) -> str | None:
    """Return why a choice cannot run or is sure to be slow, or None."""
    tiling, c = MmaTiling(shape, choice), choice
    rules = [
        *common.limit_rules(tiling, target.limits),
        (tiling.tile_m >= 2 * max(shape.m, 16), "rows beyond the output"),
        (tiling.tile_n >= 2 * max(shape.n, 16), "columns beyond the output"),
        (c["stages"] > common.larger(tiling.chunks + 1, 2), "stages beyond the chunks"),
        (c["chunk"] >= 2 * common.larger(tiling.per_split, 16), "a chunk beyond the reduction"),
        ((c["band"] > 1) & (c["band"] >= 2 * tiling.blocks[0]), "a band beyond the output"),
    ]
    return common.first_broken(rules)


def estimate(shape: Gemm, choice: Mapping[str, int], target: Target) -> float:
    """Return a rough number of cycles: tensor cores, matrix loads, staging, and launches."""
    tiling, c = MmaTiling(shape, choice), choice
    blocks = tiling.blocks[0] * tiling.blocks[1] * c["split"]
    occupied = common.occupancy(
        target, blocks, tiling.threads, tiling.registers, tiling.shared_bytes
    )
    busy_warps = occupied.together * tiling.threads // 32
    steps = tiling.chunks * c["chunk"] / 16
    # A scheduler starts one product every 7 cycles or so; a matrix load of 512 bytes occupies the
    # multiprocessor for 4.
    products = 7 * c["frags_m"] * c["frags_n"] * max(busy_warps / 4, 1.0)
    loads = 4 * (c["frags_m"] + c["frags_n"] / 2) * busy_warps
    compute = occupied.waves * (steps * max(products, loads) + tiling.chunks * 100)
    elements = tiling.chunks * c["chunk"] * (tiling.tile_m + tiling.tile_n)
    staging = occupied.waves * occupied.together * elements * 2 / 48
    joining = 0.0
    if c["split"] > 1:
        joining = 4000.0 + 8 * c["split"] * shape.m * shape.n / (20 * occupied.multiprocessors)
    share = 0.9 if c["stages"] > 2 or occupied.together > 1 else 0.4
    return common.overlapped_cycles(compute, staging, share) + joining


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
        TemplateError: rows of the matrices do not begin at a multiple of 4 bytes.
    """
    if shape.n % 2 or shape.k % 2:
        raise TemplateError(f"gemm_nn of {shape.dtype}: n and k must be even, got {shape}")
    tiling, c = MmaTiling(shape, choice), choice
    split = c["split"] > 1
    defines = common.defines(
        m=shape.m, n=shape.n, k=shape.k, threads=tiling.threads, k_per_split=tiling.per_split,
        a_pairs=common.widest(shape.k // 2, c["chunk"] // 2, tiling.per_split // 2),
        b_pairs=common.widest(shape.n // 2), bfloat16=shape.dtype == "bfloat16", **choice,
    )  # fmt: skip
    grid = (tiling.blocks[0] * tiling.blocks[1], c["split"])
    main = ["a", "b", "partial" if split else "c"]
    calls = [call("gemm_mma", main, grid, tiling.threads, tiling.shared_bytes)]
    if split:
        blocks = common.ceil_div(shape.m * shape.n, 256)
        calls.append(call("gemm_mma_reduce", ["partial", "c"], blocks, 128))
    return common.cuda_kernel(
        shape,
        ["mma.h", "gemm_mma.cu"],
        {**defines, "RESULT": "float" if split else "unsigned short"},
        calls,
        (c["split"], shape.m * shape.n) if split else None,
    )
