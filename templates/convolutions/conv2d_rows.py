"""Convolutions of NHWC images on tensor cores, of rows of pixels as they lie in memory.

Implicit GEMM by TMA or 16-byte copies (`conv2d_nhwc`) needs pixels that are aligned to 16 bytes,
and loads each once for every tap; others are copied word by word, or to padded images first. The
pixels of a row are one run of memory, though, which is aligned somewhere: here a block copies runs
as they are, with their alignment, and gathers windows in shared memory. So narrow and odd pixels
move once, in vectors, and so do their results. Wide pixels would collide in the banks of shared
memory, and long sums would have to hold all of their filters there.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import lru_cache, partial

from autotune import SourceKernel, Target, call

from .. import choices, common
from ..occupancy import resident_blocks
from ..products.gemm_mma import item_bytes
from ..products.gemm_shape import HALVES, TF32, first_names, result_name
from .conv2d_nhwc import Conv2dNhwc
from .window_shape import INT32_MAX, Window

# Longest sums, and bytes of pixels, that are gathered so; and how long sums are, and how many
# filters there are, of pixels that other kernels load in whole vectors.
LONGEST, WIDEST = 640, 1024
SHORT_SUM, FEW_FILTERS = 96, 32
# Most pixels of a tile, and bytes of its shared memory.
MOST_PIXELS, MOST_SHARED = 512, 200 * 1024


class RowsTiling:
    """The sizes that follow from a shape and a choice of knobs; the kernel text needs the same."""

    def __init__(self, shape: Conv2dNhwc, choice: Mapping[str, int]) -> None:
        c, w, size = choice, shape.window, item_bytes(shape)
        vector, depth = 16 // size, 32 // size
        self.threads = 32 * c["warps"]
        (sy, sx), (dy, dx), (kh, kw) = w.stride, w.dilation, w.size
        self.rows = (c["tile_h"] - 1) * (1 if kh == 1 else sy) + (kh - 1) * dy + 1
        self.run = ((c["tile_w"] - 1) * sx + (kw - 1) * dx + 1) * shape.ci
        pitch = self.run + 3 * vector
        self.steps = common.ceil_div(shape.k, depth)
        self.frags_n = common.ceil_div(c["filters"], 8)
        self.pixels = c["tile_h"] * c["tile_w"]
        self.frags = common.ceil_div(self.pixels, 16)
        stage = size * (self.rows * pitch + 2 * vector + depth)
        self.right_bytes = 256 * self.steps * self.frags_n
        sums = 32 * self.pixels * (self.frags_n + 1)
        offsets = 64 * self.steps
        stages = common.pick(c["turns"] > 1, 2, 1)
        self.shared_bytes = stages * stage + self.right_bytes + sums + offsets
        oh, ow = w.results(shape.h, shape.w)
        down, across = common.ceil_div(oh, c["tile_h"]), common.ceil_div(ow, c["tile_w"])
        self.tiles = shape.images * down * across
        self.grid = (
            common.ceil_div(self.tiles, c["turns"]),
            common.ceil_div(shape.n, c["filters"]),
        )
        self.at_once = common.smaller(self.frags_n, 16 // c["together"])
        # What warps take in turn: some fragments of pixels, by some of filters.
        self.items = common.ceil_div(self.frags, c["together"]) * common.ceil_div(
            self.frags_n, self.at_once
        )
        self.registers = c["together"] * (4 * self.at_once + 10) + 48

    @property
    def resident(self) -> int:
        """Blocks that fit on a multiprocessor."""
        return resident_blocks(self.threads, self.registers, self.shared_bytes)


def offered(shape: Conv2dNhwc) -> bool:
    """Return whether a convolution is one that these kernels compute."""
    size = item_bytes(shape)
    kinds = shape.dtype in (*HALVES, TF32) and shape.groups == 1 and not shape.transpose_b
    fits = shape.k <= LONGEST and shape.ci * size <= WIDEST
    odd = shape.ci * size % 16 > 0 or shape.co * size % 16 > 0
    narrow = odd or shape.k <= SHORT_SUM or shape.co <= FEW_FILTERS
    small = shape.images * shape.h * shape.w * shape.ci <= INT32_MAX
    return kinds and fits and narrow and small


def flat(shape: Conv2dNhwc) -> Conv2dNhwc:
    """Return a pointwise convolution as one of a single row of pixels; others as they are."""
    if shape.pointwise is None:
        return shape
    return replace(shape, images=1, h=1, w=shape.m, window=Window((1, 1)))


def _sides(extent: int, sizes: tuple[int, ...]) -> list[int]:
    """Return how many pixels along a side tiles may have: all, even parts, or powers of two."""
    even = {common.ceil_div(extent, parts) for parts in (1, 2, 3, 4)}
    return sorted(size for size in even | {*sizes} if size <= min(extent, sizes[-1]))


def candidates(shape: Conv2dNhwc) -> dict[str, list[int]]:
    """Return the values each knob may take for a shape."""
    shape = flat(shape)
    oh, ow = shape.window.results(shape.h, shape.w)
    parts = {8 * common.ceil_div(shape.n, 8 * count) for count in (2, 3, 4, 6, 8, 12, 16)}
    return {
        "tile_h": _sides(oh, (1, 2, 4, 8, 16)),
        "tile_w": _sides(ow, (8, 16, 32, 64, 128, 256)),
        "warps": [1, 2, 4, 8],
        "together": [1, 2, 4],
        "filters": sorted({min(shape.n, part) for part in parts} | {min(shape.n, 256)}),
        "turns": [1, 2, 4, 8],
    }


def violation(shape: Conv2dNhwc, choice: Mapping[str, int], target: Target) -> str | None:
    """Return why a choice cannot run or is sure to be slow, or None."""
    return common.first_broken(_rules(choice, flat(shape), target))


def _rules(choice: Mapping[str, int], shape: Conv2dNhwc, target: Target) -> list[tuple[bool, str]]:
    """Return the rules of `violation`; choices may be arrays of them."""
    tiling, c = RowsTiling(shape, choice), choice
    return [
        *common.limit_rules(tiling, target.limits),
        (tiling.shared_bytes > MOST_SHARED, "too much shared memory"),
        (tiling.pixels > MOST_PIXELS, "a tile of too many pixels"),
        (c["warps"] > tiling.items, "warps without pixels"),
        ((c["together"] > 1) & (c["together"] > tiling.frags), "fragments without pixels"),
        ((c["turns"] > 1) & (c["turns"] > tiling.tiles), "turns without tiles"),
        (tiling.grid[1] > target.limits.grid_dim[1], "too many blocks"),
    ]


@dataclass(frozen=True)
class Factors:
    """Factors of the estimate, in cycles unless stated otherwise.

    Those that a multiprocessor spends on the instructions of a warp:

    Attributes:
        vector, load, product, right, result, filter: for a vector of 16 bytes that is copied, a
            load of a part of a window, a product, a right operand, results that are written
            together, and filter elements.
        collisions: of a load, for each bank of shared memory that it reads once more.
        item: for fragments that are multiplied together.

    Those of a thread, which waits for what it loads:

    Attributes:
        vector_alone, step_alone, product_alone, result_alone, filter_alone: for a vector, a step
            along K and its instructions, results, and filter elements.
        block, tile: of a block and of a tile.

    And others:

    Attributes:
        memory_bytes: that memory moves in a cycle for each multiprocessor.
        start: of the kernel.
        exponent: of the sums of what overlaps.
        residual, powers: how much longer results take with a residual, and with exponentials.
    """

    vector: float = 13.9
    load: float = 1.15
    collisions: float = 0.281
    product: float = 4.17
    right: float = 0.23
    result: float = 6.82
    filter: float = 7.28
    item: float = 38.3
    vector_alone: float = 130
    step_alone: float = 21.9
    product_alone: float = 4.51
    result_alone: float = 103
    filter_alone: float = 45.9
    block: float = 97
    tile: float = 627
    memory_bytes: float = 21.3
    start: float = 3090
    exponent: float = 1.98
    residual: float = 2.27
    powers: float = 0.93


# Those of the least error, 14%, for 479 choices of 60 layers on an H200; of these the choice of
# the least estimate takes 1.02 times as long as the fastest (geometric mean).
FITTED = Factors()


def _banks(shape: Conv2dNhwc) -> int:
    """Return how many times a warp reads one bank of shared memory at most, for eight pixels."""
    apart = shape.window.stride[1] * shape.ci * item_bytes(shape)
    read = [(pixel * apart + part * 8) // 4 % 32 for pixel in range(8) for part in range(4)]
    return max(read.count(bank) for bank in read)


def _step(shape: Conv2dNhwc, tiling: RowsTiling, together: int) -> float:
    """Return cycles of a multiprocessor for a step along K of fragments multiplied together."""
    size, f, (kh, kw) = item_bytes(shape), FITTED, shape.window.size
    each = 8 // size
    parts = each // math.gcd(shape.ci, each)
    one_run = kh == 1 and (kw == 1 or shape.window.dilation[1] == 1)
    loads = 2 * together * parts + (not one_run)
    packed = together * (2 if size == 4 or parts > 1 else 0)
    reads = f.load * (loads * (1 + f.collisions * (_banks(shape) - 1)) + packed)
    products = tiling.at_once * together
    return reads + f.product * products + f.right * tiling.at_once


def estimate(shape: Conv2dNhwc, choice: Mapping[str, int], target: Target) -> float:
    """Return a rough number of cycles; choices may be arrays of them.

    They are those of the busiest multiprocessor for all of its blocks, those that a block takes
    alone, and those of memory.
    """
    shape = flat(shape)
    tiling, c, size, f = RowsTiling(shape, choice), choice, item_bytes(shape), FITTED
    count, blocks = common.multiprocessors(target), tiling.grid[0] * tiling.grid[1]
    step = _step(shape, tiling, c["together"])
    vectors = tiling.rows * tiling.run * size / 16
    results = tiling.pixels * c["filters"] / common.widest(shape.co)
    filters = tiling.steps * tiling.frags_n * 256 / size
    turns = common.smaller(c["turns"], tiling.tiles)
    after = shape.epilogue
    results = results * (1 + f.residual * after.residual + f.powers * after.has_powers)
    issued = f.vector * vectors / 32 + f.result * results / 32
    issued = issued + tiling.items * (tiling.steps * step + f.item)
    busy = common.ceil_div(blocks, count) * (turns * issued + f.filter * filters / 32)
    alone = f.tile + (f.vector_alone * vectors + f.result_alone * results) / tiling.threads
    rounds = common.ceil_div(tiling.items, c["warps"])
    alone = alone + rounds * (150 + tiling.steps * (f.step_alone + f.product_alone * step))
    once = f.block + f.filter_alone * filters / tiling.threads
    waves = common.ceil_div(blocks, count * tiling.resident)
    latency = waves * (once + turns * alone)
    read = tiling.grid[1] * shape.images * shape.h * shape.w * shape.ci
    moved = read + shape.m * shape.n * (1 + after.residual)
    memory = size * moved / (f.memory_bytes * count)
    total = busy**f.exponent + latency**f.exponent + memory**f.exponent
    cycles: float = f.start + total ** (1 / f.exponent)
    return cycles


@lru_cache(maxsize=1024)
def untuned_cycles(shape: Conv2dNhwc, target: Target) -> float:
    """Return the cycles of the untuned choice; infinity where none can run."""
    choice = default_choice(shape, target)
    if violation(shape, choice, target):
        return math.inf
    return estimate(shape, choice, target)


def default_choice(shape: Conv2dNhwc, target: Target) -> dict[str, int]:
    """Return a good guess for a shape that was never tuned: the best by estimate."""
    return choices.best_of_all(
        candidates(shape),
        partial(_rules, shape=flat(shape), target=target),
        partial(estimate, shape, target=target),
    )


def kernel(shape: Conv2dNhwc, choice: Mapping[str, int]) -> SourceKernel:
    """Return the kernel of a choice of knobs."""
    s, c = flat(shape), choice
    tiling = RowsTiling(s, choice)
    element = 1 + HALVES.index(s.dtype) if s.dtype in HALVES else 0
    sizes = common.defines(
        images=s.images, kh=s.window.size[0], co=s.co, c_n=s.co, int8=0, tf32=s.dtype == TF32,
        bfloat16=s.dtype == "bfloat16", element=element, threads=tiling.threads,
        tile_h=c["tile_h"], tile_w=c["tile_w"], tile_n=c["filters"], together=c["together"],
        turns=c["turns"], vec=common.widest(s.co, c["filters"]),
    )  # fmt: skip
    names = [*first_names(shape), result_name(shape)]
    calls = [call("conv2d_rows", names, tiling.grid, tiling.threads, tiling.shared_bytes)]
    texts = ["elements.h", "epilogue.h", "operands.h", "mma.h", "conv2d_rows.cu"]
    defines = {**sizes, **s.operands(), "M": s.m, "N": s.n, "K": s.k}
    return common.cuda_kernel(shape, texts, defines, calls)
