"""Skinny products, of few rows of 16-bit floats, on Hopper: the other operand is streamed once.

So they are in the decoding of a language model. The producer is that of `gemm_tma` with swapped
operands; the blocks of a cluster split K of one tile, and reduce through distributed shared
memory: so all multiprocessors load, though there are few tiles. Where there are so few that
clusters leave most of the device idle, more blocks than a cluster has split K, and a second
kernel, which may begin early (programmatic dependent launch), adds their sums.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial

from autotune import SourceKernel, Target, call
from autotune.errors import TemplateError

from .. import choices, common
from . import gemm_tma, gemm_wgmma
from .gemm_shape import HALVES, Product, added_together, first_names, result_name
from .gemm_tma_form import KNOB, SKINNY, Form
from .gemm_tma_tiling import MULTIPROCESSORS, PANEL, TmaTiling, in_registers

# Of 16-bit floats.
ITEM_BYTES = 2
# The value of the knob that selects a family: after the forms of `gemm_tma`.
VALUE = SKINNY
SWAPPED = Form(schedule=0, cluster_m=1, swapped=1)
# Rows up to which products are of few rows: one tile has them all.
MOST_ROWS = 64
# Untuned, rows above which `gemm_tma` is faster, with sums up to so long and so many tiles of 64
# columns.
SOME_ROWS, SHORT_SUM, TILES = 16, 4096, 32
# Fewer rows above which that is so for as many elements of a b that the L2 cache holds.
FEWER_ROWS, LARGE = 4, 2**24
# Elements of the other operand from which on it is streamed where nothing was tuned.
LEAST = 2**20
# Blocks of a cluster, at most, and of more that split K; threads of a block that adds their sums.
CLUSTERED, MORE = 8, (16, 32, 64)
REDUCE_THREADS = 128
# Size of the other operand beyond which little of it stays in the L2 cache.
NEAR_BYTES = 40 * 2**20
# Share of the estimate that more ranges than a cluster has take, of ten products on an H200.
MANY_RANGES = 0.77
TEXTS = (
    "elements.h", "epilogue.h", "operands.h", "mma.h", "barriers.h", "dependent_launch.h",
    "wgmma.h", "exp2.h", "activations.h", "tma.h", "gemm_tma.h", "gemm_tma_producer.h",
    "gemm_skinny.cu",
)  # fmt: skip


class SkinnyTiling:
    """The sizes that follow from a shape and a choice of knobs."""

    def __init__(self, shape: Product, choice: Mapping[str, int]) -> None:
        c = choice
        self.bulk = TmaTiling(shape, {**c, KNOB: SWAPPED.knob})
        self.adders = 32 * c["warps_m"]
        self.threads = self.adders + 32
        self.shared_bytes = c["stages"] * (self.bulk.stage_bytes + 16) + 64 + 1024
        self.blocks = self.bulk.tiles * c["split"]
        self.several = c["split"] > CLUSTERED

    def resident(self) -> int:
        """Return how many blocks fit a multiprocessor's shared memory, at most 4."""
        return common.larger(1, common.smaller(4, 228 * 1024 // (self.shared_bytes + 1024)))


def refusal(shape: Product) -> str | None:
    """Return why this kernel cannot serve a shape, or None."""
    rules = [
        (shape.dtype not in HALVES, "operands must be 16-bit floats"),
        (shape.gathers, "operands must be matrices"),
        (shape.m > MOST_ROWS, f"more than {MOST_ROWS} rows"),
    ]
    return common.first_broken(rules) or gemm_tma.refusal(shape)


def suits(shape: Product) -> bool:
    """Return whether a product runs so where nothing was tuned.

    On an H200 `gemm_tma` with swapped operands, which splits K within a cluster too, took 6.6 us
    for 8x4096x4096 nt, this 6.8, for 16x4096x4096 6.0 and 7.0; but for 20x8688x5504 29.8 and 24.9,
    8x11008x4096 nt 25.3 and 24.0, 4x4096x4096 nt 7.6 and 7.4. TMA takes as long for 8 numbers
    along M as for 64: where a is stored as [k, m], others are faster. With a scale and a shift,
    which swapped operands cannot have, 32x4096x4096 nt took 7.8 us so and 10.1 by `cp.async`,
    24x3072x768 nt 3.4 and 4.0.
    """
    large_and_near = shape.n * shape.k >= LARGE and not is_far(shape)
    rows = FEWER_ROWS if large_and_near else SOME_ROWS
    short = shape.m > rows and shape.k <= SHORT_SUM and has_many_tiles(shape)
    swapped = short and in_registers(shape)
    few = shape.m <= MOST_ROWS // 2 and not swapped and not shape.transpose_a
    large = shape.n * shape.k >= LEAST
    return few and large and shape.batch == 1 and refusal(shape) is None


def is_far(shape: Product) -> bool:
    """Return whether little of the other operand stays in the L2 cache."""
    return shape.n * shape.k * ITEM_BYTES > NEAR_BYTES


def has_many_tiles(shape: Product) -> bool:
    """Return whether tiles of 64 columns fill enough of the device without split-K."""
    return shape.n >= TILES * PANEL


def streams(shape: Product, target: Target) -> bool:
    """Return whether a product runs so on a target where nothing was tuned."""
    return suits(shape) and gemm_wgmma.offered(shape, target)


def candidates(shape: Product) -> dict[str, list[int]]:
    """Return the values each knob may take for a shape."""
    return {
        KNOB: [VALUE],
        "warps_m": [4, 8],
        "warps_n": [1],
        "frags_m": [1],
        "frags_n": [common.ceil_div(shape.m, 8)],
        "chunk": [64, 128],
        "stages": [3, 4, 5, 6, 8],
        "split": common.up_to(max(1, shape.k // 128), (1, 2, 4, CLUSTERED, *MORE)),
        "band": [1],
    }


def violation(shape: Product, choice: Mapping[str, int], target: Target) -> str | None:
    """Return why a choice cannot run or is sure to be slow, or None."""
    return common.first_broken(_rules(choice, shape, target))


def _rules(choice: Mapping[str, int], shape: Product, target: Target) -> list[tuple[bool, str]]:
    """Return the rules of `violation`; choices may be arrays of them."""
    tiling, c = SkinnyTiling(shape, choice), choice
    bulk = tiling.bulk
    offered = refusal(shape) is None and gemm_wgmma.offered(shape, target)
    return [
        (not offered, "no wgmma for few rows"),
        (tiling.shared_bytes > target.limits.shared_bytes_optin, "too much shared memory"),
        (bulk.tile_m >= 2 * max(shape.n, 64), "columns beyond the output"),
        (c["stages"] > common.larger(bulk.k_tiles + 1, 2), "more stages than K tiles"),
        (c["chunk"] * bulk.all_k_tiles - shape.k >= PANEL, "a TMA box beyond K"),
        (
            (c["split"] > 1) & (bulk.k_tiles * (c["split"] - 1) >= bulk.all_k_tiles),
            "an empty range",
        ),
        (
            tiling.several & (tiling.bulk.tiles * CLUSTERED >= MULTIPROCESSORS),
            "more ranges than fill the device",
        ),
        (tiling.blocks > 2**31 - 1, "too many blocks"),
    ]


def estimate(shape: Product, choice: Mapping[str, int], target: Target) -> float:
    """Return a rough number of cycles: of loads, and of their overheads.

    Choices may be arrays of them.
    """
    tiling, c = SkinnyTiling(shape, choice), choice
    bulk, resident = tiling.bulk, tiling.resident()
    # Clusters of four and more leave a tenth of the multiprocessors idle.
    clustered = (c["split"] > 1) & (tiling.several == 0)
    capacity = (MULTIPROCESSORS - 12 * (clustered & (c["split"] > 2))) * resident
    waves = common.ceil_div(tiling.blocks, capacity)
    together = common.smaller(resident, common.ceil_div(tiling.blocks, MULTIPROCESSORS))
    at_once = common.smaller(tiling.blocks, capacity)
    # Of a K tile: to wait and multiply, until a stage is filled again, the bandwidth into a
    # multiprocessor, and that of memory, where few rows cost less.
    far = shape.batch * shape.n * shape.k * ITEM_BYTES > NEAR_BYTES
    streamed = ITEM_BYTES * bulk.tile_m * c["chunk"]
    multiplying = 167 + (18 + 2 * c["frags_n"]) * c["chunk"] / 16
    filling = (2300 if far else 1000) / (c["stages"] - 1)
    loading = together * bulk.stage_bytes / 57
    bandwidth = 2100 if far else common.pick(bulk.tile_warpgroups > 1, 2600, 4660)
    reading = (
        at_once * (streamed + (bulk.stage_bytes - streamed) * (0.1 if far else 0.5)) / bandwidth
    )
    each = common.larger(common.larger(multiplying, filling), common.larger(loading, reading))
    reducing = clustered * (1500 + 220 * c["split"]) * bulk.tile_warpgroups
    sums = shape.batch * shape.m * shape.n * c["split"]
    adding = tiling.several * (1000 + 45 * c["split"] + 8 * sums / (20 * MULTIPROCESSORS))
    run = waves * (bulk.k_tiles * each + 4200 + reducing)
    cycles: float = run * common.pick(tiling.several, MANY_RANGES, 1.0) + adding
    return cycles


def default_choice(shape: Product, target: Target) -> dict[str, int]:
    """Return a good guess for a shape that was never tuned: the best by estimate.

    Of choices that are as good the first has the deepest pipeline.
    """
    return choices.best_of_all(
        {**candidates(shape), "stages": [8, 6, 5, 4, 3]},
        partial(_rules, shape=shape, target=target),
        partial(estimate, shape, target=target),
    )


def kernel(
    shape: Product, choice: Mapping[str, int], plain: Product | None = None
) -> SourceKernel:
    """Return the kernel of a choice of knobs; ``plain`` is as in `gemm_tma`.

    Raises:
        TemplateError: this kernel cannot serve the shape; the message says why.
    """
    asked = plain or shape
    if reason := refusal(shape):
        raise TemplateError(f"gemm of few rows of {shape.dtype}: {reason}, got {shape}")
    tiling, c = SkinnyTiling(shape, choice), choice
    bulk, size = tiling.bulk, asked.batch * asked.m * asked.n
    maps = {name: words for name, words in bulk.maps(asked).items() if name != "C_MAP"}
    sizes = common.defines(
        m=bulk.m, n=bulk.n, k=shape.k, c_m=asked.m, c_n=asked.n, threads=tiling.threads,
        resident=tiling.resident(), cluster=1 < c["split"] <= CLUSTERED, tf32=0,
        bfloat16=shape.dtype == "bfloat16", groups=bulk.tile_warpgroups, frags_m=1,
        tile_n=bulk.tile_n, chunk=c["chunk"], stages=c["stages"], split=c["split"], band=c["band"],
        schedule=0, cluster_m=1, cluster_n=1, swap_ab=1, box_rows=bulk.tile_n, ordered=0,
        smem_epilogue=0,
        element=1 + HALVES.index(shape.dtype), r_vec=added_together(size, asked.n),
        reduce_threads=REDUCE_THREADS,
    )  # fmt: skip
    defines = {
        **sizes, **shape.operands(), **gemm_wgmma.product_text(bulk.tile_n),
        **gemm_wgmma.begin_and_end(asked.epilogue, whole=False),
        **gemm_tma.swapped_operands(shape),
        **maps,
    }  # fmt: skip
    a, b, *operands = first_names(asked)
    out = result_name(asked)
    names = [b, a, *operands, "partial" if tiling.several else out]
    grid = (bulk.tiles, 1, c["split"])
    calls = [call("gemm_skinny", names, grid, tiling.threads, tiling.shared_bytes)]
    if tiling.several:
        together = added_together(size, asked.n)
        blocks = common.ceil_div(size, REDUCE_THREADS * together)
        names = ["partial", *operands, out]
        calls.append(call("gemm_skinny_reduce", names, blocks, REDUCE_THREADS, early=True))
    parts = (c["split"], size) if tiling.several else None
    return common.cuda_kernel(
        asked, TEXTS, defines, calls, parts, flags=[f"-arch={gemm_wgmma.ARCH}"]
    )
