"""Matrix multiplication for CUDA by ``fmaf``: tiles in shared memory and registers, and split-K.

A thread has a tile of sums in registers, and a block stages K tiles of both operands in shared
memory (Volkov and Demmel, "Benchmarking GPUs to tune dense linear algebra", 2008), some stages
ahead by asynchronous copies. Where a result has too few tiles, slices of a block (sliced K), and
blocks of a grid or of a cluster (split-K), sum ranges of K.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial

from autotune import SourceKernel, Target, call

from .. import common
from ..epilogue import Epilogue
from .gemm_shape import Product, first_names, result_name

# Multiply-adds that are unrolled. Against no limit the median of 40 configurations of products
# of 1024, 2048 and 4096 took 0.999 of the time with this one, and 1.03 with half of it (one H200).
STRAIGHT = 1024
# Of a multiprocessor of sm_90.
REGISTERS, SHARED_BYTES = 65536, 228 * 1024
# Operands beyond so many bytes do not stay in the L2 cache, and bytes that the device reads from
# memory in a cycle.
NEAR_BYTES, MEMORY_BYTES = 30_000_000, 2060
# Choices from which the search of the untuned one starts.
DRAWN = 4000
# The largest second extent of a grid.
MOST_DOWN = 65535


@dataclass(frozen=True)
class Factors:
    """Factors of the estimate, in cycles, of what depends on how launches follow each other.

    Attributes:
        copying: of a copy, with its address.
        cached: bytes from the L2 cache in a cycle.
        slicing: of a sum of a slice.
        own, own_ahead: of an instruction of a warp, and where operands are loaded a step ahead.
        near, far: latency of copies from the L2 cache and from memory.
        hiding: stages that hide nothing of it.
        filling: of loading the first K tile.
        two_kernels, added, cluster, idle: reductions, and multiprocessors that clusters leave.
        launch: of a kernel.
    """

    copying: float
    cached: float
    slicing: float
    own: float
    own_ahead: float
    near: float
    far: float
    hiding: float
    filling: float
    two_kernels: float
    added: float
    cluster: float
    idle: float
    launch: float


# Of products, with launches that overlap, and of convolutions, which were not timed again.
PRODUCTS = Factors(
    6.1, 28.7, 0.07, 1.78, 1.03, 170, 570, 1.9, 1.6, 1870, 2.8, 1550, 0.06, 2190,
)  # fmt: skip
CONVOLUTIONS = Factors(8.2, 29.6, 0.043, 1.38, 1.38, 400, 400, 1, 0, 2220, 8, 3740, 0, 2840)


class GemmTiling:
    """The sizes that follow from a shape and a choice of knobs; the kernel text needs the same."""

    def __init__(self, shape: Product, choice: Mapping[str, int]) -> None:
        c = choice
        self.shape, self.choice = shape, choice
        self.threads = c["threads_m"] * c["threads_n"] * c["slices"]
        self.tile_m, self.tile_n = c["threads_m"] * c["rows"], c["threads_n"] * c["cols"]
        self.k_tile = c["slices"] * c["step"]
        # A multiple of 4 keeps the ranges of split-K aligned for 16-byte copies.
        self.per_split = 4 * common.ceil_div(common.ceil_div(shape.k, c["split"]), 4)
        self.k_tiles = common.ceil_div(self.per_split, self.k_tile)
        # Rows of a transposed tile start in different banks.
        across = common.pick(c["transposed"], self.tile_m, self.k_tile)
        self.a_pitch = common.odd_quads(across)
        whole = 4 * common.ceil_div(self.tile_n, 4)
        self.b_pitch = common.odd_quads(self.tile_n) if shape.transpose_b else whole
        a_size = common.pick(c["transposed"], self.k_tile, self.tile_m) * self.a_pitch
        staged = c["stages"] * (a_size + self.k_tile * self.b_pitch)
        summed = c["slices"] * self.tile_m * self.tile_n
        # Results whose rows are not a multiple of vectors are stored from shared memory.
        ragged = shape.n % common.widest(c["cols"]) > 0
        joined = (c["slices"] > 1) | (c["cluster"] > 0) | ragged
        self.shared_bytes = 4 * common.larger(staged, joined * summed)
        down, across = (
            common.ceil_div(extent, tile)
            for extent, tile in ((shape.m, self.tile_m), (shape.n, self.tile_n))
        )
        # The first extent of a grid may be larger than the second.
        self.tall = shape.m > max(shape.n, MOST_DOWN)
        first, second = (down, across) if self.tall else (across, down)
        self.grid = (shape.batch * first, second, c["split"])

    @property
    def registers(self) -> int:
        """Estimate of the registers of a thread: sums, operands, and addresses."""
        c = self.choice
        left = c["rows"] * common.pick(c["transposed"], 2, common.widest(c["step"]))
        return c["rows"] * c["cols"] + left + 2 * c["cols"] + 28

    @property
    def together(self) -> int:
        """Blocks that fit a multiprocessor; they limit the registers of a thread."""
        c, warps = self.choice, common.ceil_div(self.threads, 32)
        each = c["rows"] * c["cols"] + 2 * (c["rows"] + c["cols"]) + 24
        # Each of the four schedulers has a quarter of the registers.
        by_registers = 4 * (REGISTERS // 4 // (32 * common.smaller(each, 255))) // warps
        by_memory = SHARED_BYTES // (self.shared_bytes + 1024)
        least = common.smaller(common.smaller(by_registers, by_memory), 64 // warps)
        return common.larger(1, common.smaller(least, 32))

    @property
    def straight(self) -> int:
        """Steps along K that are unrolled: a multiple of those of a vectorised load."""
        c = self.choice
        least = 1 if c["transposed"] else common.widest(c["step"])
        return common.straight(c["step"], least, c["rows"] * c["cols"], STRAIGHT)

    @property
    def ahead(self) -> bool:
        """Whether the kernel loads fragments a step ahead, across K tiles."""
        c = self.choice
        return bool(c["transposed"]) and c["stages"] > 1 and self.straight % 2 == 0

    @property
    def a_copy(self) -> int:
        """Elements of a that are copied together."""
        s = self.shape
        if s.transpose_a:
            return common.widest(s.m, self.tile_m)
        along_k = common.widest(s.a_run, self.per_split, self.k_tile)
        return common.pick(self.choice["transposed"], 1, along_k)

    @property
    def b_copy(self) -> int:
        """Elements of b that are copied together."""
        return 1 if self.shape.transpose_b else common.widest(self.shape.n, self.tile_n)

    def defines(self) -> Mapping[str, int | str]:
        """Return everything the kernel text is parameterised by."""
        s, c = self.shape, self.choice
        together = s.n if s.epilogue != Epilogue() else s.batch * s.m * s.n
        knobs = common.defines(
            m=s.m, n=s.n, k=s.k, threads=self.threads, threads_m=c["threads_m"],
            threads_n=c["threads_n"], rows=c["rows"], cols=c["cols"], slices=c["slices"],
            split=c["split"], step=c["step"], stages=c["stages"], straight=self.straight,
            together=self.together,
            k_per_split=self.per_split,
            cluster=c["cluster"] and c["split"] > 1, a_pitch=self.a_pitch, b_pitch=self.b_pitch,
            a_copy=self.a_copy,
            transposed=c["transposed"], row_vec=common.widest(c["rows"]),
            tall=self.tall, b_copy=self.b_copy,
            k_vec=common.widest(c["step"]), n_vec=common.widest(c["cols"]),
            r_vec=common.widest(together),
        )  # fmt: skip
        return {**knobs, **s.operands()}

    def kernel(self) -> SourceKernel:
        """Return the kernel of this tiling."""
        s, c = self.shape, self.choice
        two = c["split"] > 1 and not c["cluster"]
        names, out = first_names(s), result_name(s)
        main = [*names, "partial" if two else out]
        calls = [call("gemm_nn", main, self.grid, self.threads, self.shared_bytes)]
        size, defines = s.batch * s.m * s.n, self.defines()
        if two:
            blocks = common.ceil_div(size, 128 * int(defines["R_VEC"]))
            calls.append(call("gemm_nn_reduce", ["partial", *names[2:], out], blocks, 128))
        parts = (c["split"], size) if two else None
        texts = [
            "epilogue.h",
            "operands.h",
            "gemm_nn_copies.h",
            "gemm_nn_mainloop.h",
            "gemm_nn.cu",
        ]
        return common.cuda_kernel(s, texts, defines, calls, parts)


def candidates(shape: Product) -> dict[str, list[int]]:
    """Return the values each knob may take for a shape."""
    return {
        "rows": common.up_to(shape.m, (1, 2, 4, 6, 8, 10, 12, 16)),
        "cols": common.up_to(shape.n, (1, 2, 4, 8, 16)),
        "threads_m": common.up_to(shape.m, (1, 2, 4, 8, 16, 32)),
        "threads_n": common.up_to(shape.n, (1, 2, 4, 8, 16, 32, 64, 128)),
        "slices": common.up_to(shape.k, (1, 2, 4, 8, 16)),
        "split": common.up_to(shape.k, (1, 2, 4, 8, 16, 32)),
        "step": common.up_to(shape.k, (1, 2, 4, 8, 16, 32)),
        "stages": [1, 2, 3, 4],
        "cluster": [0, 1],
        "transposed": [1] if shape.transpose_a else [0, 1],
    }


def violation(shape: Product, choice: Mapping[str, int], target: Target) -> str | None:
    """Return why a choice cannot run or is sure to be slow, or None."""
    return common.first_broken(_rules(choice, shape, target))


def _rules(choice: Mapping[str, int], shape: Product, target: Target) -> list[tuple[bool, str]]:
    """Return the rules of `violation`; choices may be arrays of them."""
    tiling, limits, c = GemmTiling(shape, choice), target.limits, choice
    least = min(64, shape.m * shape.n)
    return [
        *common.limit_rules(tiling, limits),
        ((tiling.threads < least) & (c["slices"] * 2 <= shape.k), "too few threads"),
        (tiling.grid[1] > limits.grid_dim[1], "too many blocks"),
        (tiling.grid[0] > limits.grid_dim[0], "too many blocks"),
        (tiling.tile_m >= 2 * shape.m, "rows beyond the output"),
        (tiling.tile_n >= 2 * shape.n, "columns beyond the output"),
        (tiling.k_tile >= 2 * tiling.per_split, "slices beyond the reduction"),
        (c["stages"] > tiling.k_tiles + 1, "more stages than K tiles"),
        (c["step"] * c["rows"] * c["cols"] > 4096, "too long when unrolled"),
        *common.cluster_rules(c, target),
    ]


def estimate(
    shape: Product, choice: Mapping[str, int], target: Target, convolution: bool = False
) -> float:
    """Return a rough number of cycles; choices may be arrays of them.

    The busiest multiprocessor issues instructions, serves shared memory and loads operands for all
    of its blocks, while each block multiplies its K tiles one after another; large operands are
    read from memory. Factors are those of the least error for 1290 choices of 97 products on an
    H200, which was 18% for products that had no part in the fit; those of latencies, memory and
    reductions once more to 1266 for 44, most of few rows, with launches that overlap.

    Args:
        convolution: whether the product is a part of one, as in Winograd's method.
    """
    tiling, c = GemmTiling(shape, choice), choice
    factors = CONVOLUTIONS if convolution or shape.gathers else PRODUCTS
    count, blocks = common.multiprocessors(target), math.prod(tiling.grid)
    warps = common.ceil_div(tiling.threads, 32)
    waves = common.ceil_div(blocks, count * tiling.together)
    # Instructions of a thread for a K tile; a copy takes several with its address.
    along_m = common.pick(c["transposed"], common.widest(c["rows"]), common.widest(c["step"]))
    reads = c["rows"] / along_m + c["cols"] / common.widest(c["cols"])
    copies = tiling.k_tile * (tiling.tile_m / tiling.a_copy + tiling.tile_n / tiling.b_copy)
    issued = (
        c["step"] * (c["rows"] * c["cols"] + reads)
        + factors.copying * copies / tiling.threads
        + 46
    )
    # The cycles of a multiprocessor for a K tile: of schedulers, shared memory, and the L2 cache.
    works = (
        warps * issued / 4,
        0.27 * warps * c["step"] * (c["rows"] + c["cols"]) + 4.8 * copies / 32,
        tiling.k_tile * (tiling.tile_m + tiling.tile_n) * 4 / factors.cached,
    )
    busy = sum(work**3 for work in works) ** (1 / 3)
    # Stores: rows of a warp that are shorter than a line of the cache take longer.
    outputs = tiling.tile_m * tiling.tile_n
    rectangles = (c["threads_m"] % 4 == 0) & (c["threads_n"] % 8 == 0)
    across = common.pick(rectangles, 8, c["threads_n"]) * common.widest(c["cols"])
    staged = (c["slices"] > 1) | (shape.n % common.widest(c["cols"]) > 0)
    width = common.smaller(common.pick(staged, tiling.tile_n, across), 32)
    writing = 0.38 * outputs * (32 / width) ** 0.24
    slicing = factors.slicing * (c["slices"] > 1) * (c["slices"] + 1) * outputs
    here = common.ceil_div(blocks, count) * (tiling.k_tiles * busy + writing + slicing)
    # Warps wait for operands, but not where these are loaded a step ahead (`GemmTiling.ahead`).
    ahead = (c["transposed"] > 0) & (c["stages"] > 1) & (c["step"] > 1)
    own = common.pick(ahead, factors.own_ahead, factors.own) * issued
    # The latency of copies that products do not hide: most counts where memory is read.
    read = sum(argument.bytes for argument in shape.arguments()[:2])
    latency = factors.far if read > NEAR_BYTES else factors.near
    together = common.smaller(tiling.together, common.ceil_div(blocks, count))
    # A stage is filled again when its K tile has been multiplied: two of them hide little.
    meanwhile = common.larger(c["stages"] - factors.hiding, 0) * common.larger(
        own, together * busy
    )
    # The first K tile is loaded before anything is multiplied.
    filling = factors.filling * together * works[2]
    chain = waves * (tiling.k_tiles * (own + common.larger(latency - meanwhile, 0)) + filling)
    sums = c["split"] * shape.batch * shape.m * shape.n
    two_kernels = factors.two_kernels + factors.added * sums / (20 * count)
    reducing = (c["split"] > 1) * common.pick(c["cluster"], factors.cluster, two_kernels)
    # Large clusters leave some multiprocessors idle.
    idle = factors.idle * (c["cluster"] > 0) * (c["split"] > 2)
    work = (here**1.5 + chain**1.5) ** (2 / 3) * (1 + idle)
    # Runs of b that are shorter than a line of the cache are read more slowly from memory, too.
    line = common.smaller(tiling.tile_n, 32) if not shape.transpose_b else 32
    reading = read / MEMORY_BYTES * (32 / line) ** 0.24
    reading *= read > NEAR_BYTES and factors is PRODUCTS
    cycles: float = (work**6 + reading**6) ** (1 / 6) + reducing + factors.launch
    return cycles


def default_choice(shape: Product, target: Target, convolution: bool = False) -> dict[str, int]:
    """Return a good guess for a shape that was never tuned: the best by estimate.

    Of all but small products only sizes of tiles count that the estimate was fitted to.
    """
    options = candidates(shape)
    if min(shape.m, shape.n, shape.k) >= 32:
        most = {"cols": 8, "threads_n": 64, "step": 32}
        options = {name: common.up_to(most.get(name, 64), v) for name, v in options.items()}
        options["step"] = [step for step in options["step"] if step >= 4]
    return common.best_near_drawn(
        options,
        DRAWN,
        partial(_rules, shape=shape, target=target),
        partial(estimate, shape, target=target, convolution=convolution),
    )


def kernel(shape: Product, choice: Mapping[str, int]) -> SourceKernel:
    """Return the kernel of a choice of knobs."""
    return GemmTiling(shape, choice).kernel()
