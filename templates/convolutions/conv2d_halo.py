"""NHWC convolutions of 16-bit floats with stride 1 on Hopper that load a pixel once for all taps.

By implicit GEMM (`gemm_tma`, `gemm_wgmma`) each tap of each output pixel comes from the L2 cache,
which takes longer than to multiply it where filters are few hundred. Here TMA loads an input tile
with its halo, 64 channels at a time, and the left operand of ``wgmma`` for a tap is that tile from
another pixel on: 8 x 8 output pixels are 64 rows. Images whose sides are far from multiples of 8
leave rows of tiles idle.

The knobs are those of `gemm_tma`, so that `gemm_half` has all in one space: a tile has ``warps_m *
frags_m / 4`` squares of 8 x 8 pixels, ``band`` of them side by side, and ``frags_n * 8`` filters;
``stages`` are those of filters. With as many stages as filters of a tile have taps of 64 channels,
a block loads its filters once, and computes several tiles.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from functools import partial

from autotune import SourceKernel, Target, call, workspace
from autotune.errors import TemplateError

from .. import choices, common, tensor_map
from ..products.gemm_shape import HALVES, Product, first_names, result_name
from ..products.gemm_tma_form import HALO, KNOB
from ..products.gemm_tma_tiling import widths
from ..products.gemm_wgmma import ARCH, has_wgmma, product_text
from ..tensor_map import initializer, pixels_map
from . import implicit_gemm_tma
from .conv2d_nhwc import Conv2dNhwc

HOPPER = Target(f"cuda -arch={ARCH}")
# The value of the knob that selects a family.
VALUE = HALO
# Pixels of a side of a square, channels of a chunk, and bytes that a pixel of one has.
SIDE, PANEL, PIXEL_BYTES = 8, 64, 128
# Bytes in which a warp stages results; of those that TMA and `wgmma` need aligned.
STAGING_BYTES, ALIGNED = 16 * 64 * 4, 1024
# Registers of a thread besides its sums, and sums of a thread, at most.
OTHER_REGISTERS, MOST_SUMS = 64, 128
# Pixels of a side of a TMA box, at most.
LARGEST_BOX = 256
# Weight of the bytes of rows that touch one cache line more, as in `gemm_tma_tiling`.
STRADDLED = 1.7
# Cycles before the first product of a block, and after its last result.
PROLOGUE = 4500
# Bytes that TMA loads in a cycle into a multiprocessor.
RATE = 56
# Taps of 64 channels up to which all filters of a tile may be in shared memory.
MOST_STAGES = 27
# Cycles of a tile of several beside its products and results.
BETWEEN_TILES = 600
# Cycles of an instruction of few filters, and the factor by which cycles of tiles of all filters
# take as long as those of others.
LEAST_PRODUCT, ALL_SHARE = 46, 0.92
TEXTS = (
    "elements.h", "epilogue.h", "operands.h", "mma.h", "barriers.h", "dependent_launch.h",
    "wgmma.h", "exp2.h", "activations.h", "tma.h", "implicit_gemm_tma.h", "conv2d_halo.cu",
)  # fmt: skip


class HaloTiling:
    """The sizes that follow from a shape and a choice of knobs."""

    def __init__(self, shape: Conv2dNhwc, choice: Mapping[str, int]) -> None:
        c, (kh, kw), (dy, dx) = choice, shape.window.size, shape.window.dilation
        self.groups = common.larger(c["warps_m"] // 4, 1)
        self.squares = self.groups * c["frags_m"]
        self.across = c["band"]
        self.down = common.larger(self.squares // self.across, 1)
        self.threads = 128 * (self.groups + 1)
        self.tile_n = c["frags_n"] * 8
        self.halo = (self.down * SIDE + (kh - 1) * dy, self.across * SIDE + (kw - 1) * dx)
        self.pixel_bytes = self.halo[0] * self.halo[1] * PIXEL_BYTES
        a_bytes = common.ceil_div(self.pixel_bytes, ALIGNED) * ALIGNED
        self.chunks = common.ceil_div(shape.ci, PANEL)
        # Rows of filters that are multiplied, 16 at a time.
        self.filter_rows = PANEL if self.chunks > 1 else 16 * common.ceil_div(shape.ci, 16)
        self.b_bytes = common.ceil_div(self.tile_n, PANEL) * self.filter_rows * PIXEL_BYTES
        self.all_filters = 0 + (c["stages"] == shape.window.taps * self.chunks)
        self.a_stages = common.larger(1 + self.all_filters, min(2, self.chunks))
        self.shared_bytes = (
            self.a_stages * (a_bytes + 16) + c["stages"] * (self.b_bytes + 16)
            + self.groups * 4 * STAGING_BYTES + ALIGNED
        )  # fmt: skip
        oh, ow = shape.window.results(shape.h, shape.w)
        rows = common.ceil_div(oh, self.down * SIDE)
        columns = common.ceil_div(ow, self.across * SIDE)
        self.tiles_n = common.ceil_div(shape.n, self.tile_n)
        self.tiles = shape.images * rows * columns * self.tiles_n
        self.sums = c["frags_m"] * c["frags_n"] * 4

    def resident(self, target: Target) -> int:
        """Return how many blocks a multiprocessor has at a time: one, or two that fit."""
        limits = target.limits
        fits = 2 * (self.shared_bytes + 1024) <= limits.shared_bytes_optin + 1024
        registers = common.ceil_div(self.sums + OTHER_REGISTERS, 8) * 8
        return 1 + (fits & (2 * self.threads * registers <= limits.registers))

    def blocks(self, target: Target) -> int:
        """Return the number of blocks; those of several tiles have the same filters in all."""
        several = common.multiprocessors(target) * self.resident(target) // self.tiles_n
        together = common.smaller(common.larger(several, 1) * self.tiles_n, self.tiles)
        return common.pick(self.all_filters, together, self.tiles)


def refusal(shape: Product) -> str | None:
    """Return why these kernels cannot compute a shape, or None."""
    if not isinstance(shape, Conv2dNhwc):
        return "operands must be filters and NHWC images"
    rules = [
        (shape.dtype not in HALVES, "images must be of 16-bit floats"),
        (shape.groups > 1 or shape.transpose_b, "channels must be in one group"),
        (shape.window.stride != (1, 1), "the stride must be 1"),
        (shape.window.taps == 1, "filters must have several taps"),
        (shape.ci % 8 > 0 or shape.co % 8 > 0, "channels must be multiples of 8"),
    ]
    return common.first_broken(rules)


def candidates(shape: Product) -> dict[str, list[int]]:
    """Return the values each knob may take for a shape."""
    return {
        KNOB: [VALUE],
        "warps_m": [4, 8],
        "warps_n": [1],
        "frags_m": [1, 2],
        "frags_n": widths(shape.n),
        "chunk": [PANEL],
        "stages": sorted({3, 4, 5, 6, 8} | _all_stages(shape)),
        "split": [1],
        "band": [1, 2, 4],
    }


def _all_stages(shape: Product) -> set[int]:
    """Return the number of stages that all filters of a tile have, if these may be so many."""
    assert isinstance(shape, Conv2dNhwc)
    every = shape.window.taps * common.ceil_div(shape.ci, PANEL)
    return {every} if 1 < every <= MOST_STAGES else set()


def violation(shape: Product, choice: Mapping[str, int], target: Target) -> str | None:
    """Return why a choice cannot run or is sure to be slow, or None."""
    return common.first_broken(_rules(choice, shape, target))


def _rules(choice: Mapping[str, int], shape: Product, target: Target) -> list[tuple[bool, str]]:
    """Return the rules of `violation`; choices may be arrays of them."""
    if (reason := refusal(shape)) or not isinstance(shape, Conv2dNhwc):
        return [(True, reason or "")]
    tiling, limits = HaloTiling(shape, choice), target.limits
    oh, ow = shape.window.results(shape.h, shape.w)
    return [
        (not has_wgmma(target), "no wgmma"),
        (tiling.across > tiling.squares, "squares beyond the tile"),
        (tiling.shared_bytes > limits.shared_bytes_optin, "too much shared memory"),
        (tiling.sums > MOST_SUMS, "too many registers"),
        (tiling.halo[0] > LARGEST_BOX, "a TMA box of too many rows"),
        (tiling.halo[1] > LARGEST_BOX, "a TMA box of too many columns"),
        (tiling.down * SIDE >= oh + SIDE, "rows beyond the output"),
        (tiling.across * SIDE >= ow + SIDE, "columns beyond the output"),
        (tiling.tile_n >= 2 * max(shape.n, 64), "filters beyond the output"),
        (tiling.tiles > 2**31 - 1, "too many blocks"),
        (
            (tiling.all_filters > 0) & (tiling.tiles <= tiling.blocks(target)),
            "all filters for a single tile",
        ),
    ]


def estimate(shape: Product, choice: Mapping[str, int], target: Target) -> float:
    """Return a rough number of cycles: the slower of products and loads, and their overheads.

    The constants of tiles of all filters were fitted to 22 layers of 16 to 128 channels on an
    H100.
    """
    assert isinstance(shape, Conv2dNhwc)
    tiling, c, taps = HaloTiling(shape, choice), choice, shape.window.taps
    sms = target.limits.sm_count if target.limits.sm_count > 1 else 132
    resident = tiling.resident(target)
    steps = common.ceil_div(tiling.tiles, sms * resident)
    together = common.smaller(resident, common.ceil_div(tiling.tiles, sms))
    # As in `gemm_tma_estimate`.
    one = common.larger(c["frags_n"] * 5.55 + 4, 32 + c["frags_n"] * 3.6)
    products = taps * common.ceil_div(shape.ci, 16) * tiling.squares * one
    pixels = tiling.pixel_bytes * _straddling(shape.ci) / RATE
    filters = taps * tiling.b_bytes * _straddling(shape.co) / RATE
    loads = tiling.chunks * (pixels + filters)
    work = (products**6 + loads**6) ** (1 / 6) * together + 150 * tiling.chunks
    results = tiling.squares * 64 * tiling.tile_n / 12 * together
    single = steps * (work + PROLOGUE + tiling.pixel_bytes / RATE + results)
    # With all filters pixels arrive while others are multiplied and results written.
    tiles = common.ceil_div(tiling.tiles, tiling.blocks(target))
    every = taps * common.ceil_div(shape.ci, 16) * tiling.squares
    every *= common.larger(LEAST_PRODUCT, 16 + 4 * c["frags_n"])
    work = common.larger(every, tiling.chunks * pixels) * together + 150 * tiling.chunks
    several = ALL_SHARE * (PROLOGUE + loads + tiles * (work + results + BETWEEN_TILES))
    cycles: float = common.pick(tiling.all_filters, several, single)
    return cycles


def _straddling(channels: int) -> float:
    """Return what rows of 128 bytes cost that are not aligned to lines of the cache."""
    return 1 + STRADDLED * (1 - math.gcd(channels, PANEL) / PANEL)


def default_choice(shape: Product, target: Target) -> dict[str, int]:
    """Return a good guess for a shape that was never tuned: the best by estimate."""
    options = candidates(shape)
    options |= {"stages": sorted(options["stages"], reverse=True)}
    rules = partial(_rules, shape=shape, target=target)
    return choices.best_of_all(options, rules, partial(estimate, shape, target=target))


def kernel(
    shape: Product, choice: Mapping[str, int], plain: Product | None = None
) -> SourceKernel:
    """Return the kernel of a choice of knobs.

    Args:
        plain: what is asked for, where ``shape`` is that of padded copies: the kernel takes its
            arguments and writes its result.

    Raises:
        TemplateError: these kernels cannot compute the shape; the message says why.
    """
    reason = refusal(shape)
    if reason or not isinstance(shape, Conv2dNhwc):
        raise TemplateError(f"convolution of {shape.dtype} with its halo: {reason}, got {shape}")
    tiling, c, asked = HaloTiling(shape, choice), choice, plain or shape
    names = [*first_names(asked), result_name(asked), "maps"]
    images = (shape.images, shape.h, shape.w, shape.ci)
    maps = {
        "A_MAP": initializer(pixels_map(images, shape.dtype, tiling.halo)),
        "B_MAP": initializer(implicit_gemm_tma.filters_map(shape, tiling.filter_rows)),
    }
    sizes = common.defines(
        m=shape.m, n=shape.n, k=shape.k, c_n=asked.n, threads=tiling.threads,
        resident=tiling.resident(HOPPER), groups=tiling.groups,
        frags_m=c["frags_m"], tile_n=tiling.tile_n, squares_across=tiling.across,
        stages=c["stages"], filter_rows=tiling.filter_rows,
        a_stages=tiling.a_stages, kh=shape.window.size[0], images=shape.images, chunk=PANEL,
        tap_run=implicit_gemm_tma.tap_run(shape), tf32=0, int8=0,
        bfloat16=shape.dtype == "bfloat16", element=1 + HALVES.index(shape.dtype),
    )  # fmt: skip
    last = {"LAST": shape.epilogue.number, "ACTIVATION": 0}
    defines = {**sizes, **maps, **shape.operands(), **product_text(tiling.tile_n), **last}
    blocks = tiling.blocks(HOPPER)
    run = call("conv2d_halo", names, blocks, tiling.threads, tiling.shared_bytes)
    source = common.cuda_kernel(asked, TEXTS, defines, [run], flags=[f"-arch={ARCH}"])
    words = (blocks + 1) * tensor_map.WORDS  # one more, so that the others can be aligned
    return replace(source, workspace=[workspace("maps", (words,), "int32")])
