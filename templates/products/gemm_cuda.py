"""Matrix multiplication for CUDA: staged tiles, register tiles, and splits of the reduction.

A thread has a tile of sums in registers, and a block stages what its threads share in shared
memory (Volkov and Demmel, "Benchmarking GPUs to tune dense linear algebra", 2008), some chunks
ahead by asynchronous copies. Where a result has too few tiles, slices of a block, and blocks of a
grid or of a cluster, take ranges of the sum.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from functools import partial

from autotune import SourceKernel, Target, call

from .. import common
from ..epilogue import Epilogue
from .gemm_shape import Product, first_names, result_name

# Multiply-adds written out in a row. Against no limit the median of 40 configurations of products
# of 1024, 2048 and 4096 took 0.999 of the time with this one, and 1.03 with half of it (one H200).
STRAIGHT = 1024
# Of a multiprocessor of sm_90.
REGISTERS, SHARED_BYTES = 65536, 228 * 1024
# Tiles that a grid has along its second extent.
MOST_DOWN = 65535


class GemmTiling:
    """The sizes that follow from a shape and a choice of knobs; the kernel text needs the same."""

    def __init__(self, shape: Product, choice: Mapping[str, int]) -> None:
        c = choice
        self.shape, self.choice = shape, choice
        self.threads = c["threads_m"] * c["threads_n"] * c["slices"]
        self.tile_m, self.tile_n = c["threads_m"] * c["rows"], c["threads_n"] * c["cols"]
        self.chunk = c["slices"] * c["step"]
        # A multiple of 4 keeps the ranges of a split aligned for 16-byte copies.
        self.per_split = 4 * common.ceil_div(common.ceil_div(shape.k, c["split"]), 4)
        self.chunks = common.ceil_div(self.per_split, self.chunk)
        # Rows of a transposed tile begin 16-byte words apart, and in different banks.
        across = 4 * common.ceil_div(self.tile_m, 4) + 4
        self.a_pitch = common.pick(c["transposed"], across, common.odd_quads(self.chunk))
        self.b_pitch = 4 * common.ceil_div(self.tile_n, 4) + 4 * shape.transpose_b
        a_size = common.pick(c["transposed"], self.chunk, self.tile_m) * self.a_pitch
        staged = c["stages"] * (a_size + self.chunk * self.b_pitch)
        summed = c["slices"] * self.tile_m * self.tile_n
        # Results whose rows are no whole vectors are written from shared memory.
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
        """Blocks that a multiprocessor has room for; what registers it then has are the limit."""
        c, warps = self.choice, common.ceil_div(self.threads, 32)
        registers = min(c["rows"] * c["cols"] + 2 * (c["rows"] + c["cols"]) + 24, 255)
        # Each of the four schedulers has its share.
        by_registers = 4 * (REGISTERS // 4 // (32 * registers)) // warps
        return max(
            1, min(by_registers, SHARED_BYTES // (self.shared_bytes + 1024), 32, 64 // warps)
        )

    @property
    def straight(self) -> int:
        """Steps along K that are written out in a row: a whole number of reads."""
        c = self.choice
        least = 1 if c["transposed"] else common.widest(c["step"])
        return common.straight(c["step"], least, c["rows"] * c["cols"], STRAIGHT)

    @property
    def ahead(self) -> bool:
        """Whether the kernel reads operands a step ahead, across chunks."""
        c = self.choice
        return bool(c["transposed"]) and c["stages"] > 1 and self.straight % 2 == 0

    @property
    def a_copy(self) -> int:
        """Elements of a that are copied together."""
        s = self.shape
        if s.transpose_a:
            return common.widest(s.m, self.tile_m)
        turned = self.choice["transposed"]
        return 1 if turned else common.widest(s.a_run, self.per_split, self.chunk)

    @property
    def b_copy(self) -> int:
        """Elements of b that are copied together."""
        return 1 if self.shape.transpose_b else common.widest(self.shape.n, self.tile_n)

    def defines(self) -> Mapping[str, int | str]:
        """Return everything the kernel text is parameterised by."""
        s, c = self.shape, self.choice
        together = s.n if s.rest != Epilogue() else s.batch * s.m * s.n
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
    """Return what may be wrong with a choice, or with many: whether it is, and in words."""
    tiling, limits, c = GemmTiling(shape, choice), target.limits, choice
    least = min(64, shape.m * shape.n)
    return [
        *common.limit_rules(tiling, limits),
        ((tiling.threads < least) & (c["slices"] * 2 <= shape.k), "too few threads"),
        (tiling.grid[1] > limits.grid_dim[1], "too many blocks"),
        (tiling.grid[0] > limits.grid_dim[0], "too many blocks"),
        (tiling.tile_m >= 2 * shape.m, "rows beyond the output"),
        (tiling.tile_n >= 2 * shape.n, "columns beyond the output"),
        (tiling.chunk >= 2 * tiling.per_split, "slices beyond the reduction"),
        (c["stages"] > tiling.chunks + 1, "stages beyond the chunks"),
        (c["step"] * c["rows"] * c["cols"] > 4096, "too long when unrolled"),
        *common.cluster_rules(c, target),
    ]


def estimate(shape: Product, choice: Mapping[str, int], target: Target) -> float:
    """Return a rough number of cycles: arithmetic, staging, adding up, and launches."""
    tiling, c = GemmTiling(shape, choice), choice
    occupied = common.occupancy(
        target, math.prod(tiling.grid), tiling.threads, tiling.registers, tiling.shared_bytes
    )
    busy_warps = occupied.together * common.ceil_div(tiling.threads, 32)
    along_m = common.widest(c["rows"] if c["transposed"] else c["step"])
    reads = c["rows"] / along_m + c["cols"] / common.widest(c["cols"])
    # Instructions of a warp for a chunk: a copy takes three with its addresses.
    copies = tiling.chunk * (tiling.tile_m / tiling.a_copy + tiling.tile_n / tiling.b_copy)
    work = c["step"] * (c["rows"] * c["cols"] + reads) + 3 * copies / tiling.threads
    work += 60 + tiling.threads / 4
    # Steps that are not written out in one piece stop at the end of each.
    work *= (1.0 if tiling.ahead else 1.25) * (1.1 if c["step"] > tiling.straight else 1.0)
    # An element read from shared memory occupies the multiprocessor for a cycle a warp, whether
    # its threads share it or not; the four schedulers share that, but not their arithmetic.
    work = max(work, c["step"] * 3.0 * (c["rows"] + c["cols"]))
    compute = occupied.waves * tiling.chunks * work * max(busy_warps / 4, 1.6)
    staged = tiling.chunks * tiling.chunk * (tiling.tile_m + tiling.tile_n) * 4
    single = tiling.chunks * tiling.chunk * tiling.tile_m * c["transposed"]
    staging = occupied.waves * occupied.together * (staged / 48 + single / 16)
    overlapped = c["stages"] > 1 and tiling.chunks > 1
    adding = occupied.waves * occupied.together * tiling.threads * c["rows"] * c["cols"] * 8 / 128
    adding *= (c["slices"] > 1) + 3 * c["cluster"]
    share = 0.9 if overlapped or occupied.together > 1 else 0.05
    both = common.overlapped_cycles(compute, staging, share)
    # Partial sums are written as well as read.
    joining = 2 * common.joining_cycles(c, shape.batch * shape.m * shape.n, occupied)
    return both + adding + joining


def _sampled(shape: Product) -> dict[str, list[int]]:
    """Return the values among which a default is looked for.

    Where there is room for tiles it reads operands ahead and is no wider than what was measured:
    of the estimates of all choices the lowest would be that which errs most.
    """
    options = candidates(shape)
    if min(shape.m, shape.n, shape.k) < 64:
        return options
    least = {"rows": 4, "cols": 4, "threads_n": 4, "step": 4, "stages": 3, "transposed": 1}
    most = {"cols": 8, "threads_n": 32, "step": 16}
    if shape.batch * shape.m * shape.n >= 2**20:
        # Tiles fill the device.
        most |= {"slices": 4, "split": 1, "cluster": 0}
    return {
        name: [v for v in values if least.get(name, 0) <= v <= most.get(name, v)]
        for name, values in options.items()
    }


def default_choice(shape: Product, target: Target) -> dict[str, int]:
    """Return a good guess for a shape that was never tuned: the best of a fixed sample."""
    return common.best_drawn_at_once(
        _sampled(shape),
        20000,
        partial(_rules, shape=shape, target=target),
        partial(estimate, shape, target=target),
    )


def kernel(shape: Product, choice: Mapping[str, int]) -> SourceKernel:
    """Return the kernel of a choice of knobs."""
    return GemmTiling(shape, choice).kernel()
