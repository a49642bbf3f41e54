"""Convolutions of NCHW images of 16-bit floats on Hopper, without copies of the images.

As in `conv2d_bf16x3`, whose arithmetic needs more of everything: threads load an input tile with
its halo once for all taps, and store eight channels of a pixel as a row of a core matrix, so that
``wgmma`` reads the taps of filters at shifted addresses. Loads are in flight while the products of
the channels before are. Filters are packed by a kernel before.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from functools import lru_cache, partial

from autotune import SourceKernel, Target, call, workspace

from .. import choices, common
from ..occupancy import resident_blocks
from ..products.gemm_shape import HALVES
from ..products.gemm_wgmma import ARCH, has_wgmma, product_text
from .conv2d_channels_first import arguments, reference
from .conv2d_nhwc import Conv2dNhwc
from .window_shape import INT32_MAX

# Filters of a warpgroup, pixels of a row of a core matrix, and threads that pack filters.
FILTERS, SIDE, PACKERS = 64, 8, 256
# Rows of a tile, and channels of a K tile.
ROWS, CHUNKS = (2, 4, 6, 7, 8, 10, 12, 14, 16, 20, 24, 28), (16, 32, 64)
# Ranges of channels, a block of a cluster each.
RANGES = (1, 2, 4, 8)
# Registers of a thread besides its sums, and sums of a thread, at most.
OTHER_REGISTERS, MOST_SUMS = 72, 128
# Taps of filters that are packed in static shared memory; registers for addresses of cells.
MOST_TAPS, MOST_ITEMS = 46, 12
# Cycles of launches, before the first product and after the last, and of a K tile that nothing
# hides.
LAUNCH, PROLOGUE, LATENCY = 2400, 1450, 380
# Bytes of filters that a multiprocessor loads in a cycle, cycles of a cell, and bytes that it
# packs in a cycle.
RATE, LOADED, PACKED = 47, 1.55, 17
# Cycles of a row of 8 results of 64 filters, the share of them more where rows are odd, and of a
# reduction in a cluster, and one of eight blocks more.
WRITTEN, WRITTEN_ODD, REDUCED, REDUCED_BY_EIGHT = 51, 4, 2500, 2000
TEXTS = (
    "mma.h", "barriers.h", "dependent_launch.h", "wgmma.h", "packed.h", "wgmma_registers.h",
    "conv2d_nchw_half.cu",
)  # fmt: skip


class CellsTiling:
    """The sizes that follow from a shape and a choice of knobs."""

    def __init__(self, shape: Conv2dNhwc, choice: Mapping[str, int]) -> None:
        c, (kh, kw) = choice, shape.window.size
        (sy, sx), (dy, dx) = shape.window.stride, shape.window.dilation
        oh, ow = shape.window.results(shape.h, shape.w)
        self.planes = (1 if kh == 1 else sy, 1 if kw == 1 else sx)
        self.plane_h = c["rows"] + (kh - 1) * dy // sy
        self.plane_w = SIDE * c["across"] + (kw - 1) * dx // sx
        self.cells = self.planes[0] * self.planes[1] * self.plane_h * self.plane_w
        self.threads = 2 * FILTERS * c["groups"]
        every = common.ceil_div(shape.a_run, c["channels"])
        self.k_tiles = common.ceil_div(every, c["split"])
        self.filter_bytes = shape.window.taps * c["channels"] * FILTERS * 2
        self.items = c["channels"] // 8 * self.cells
        self.own_items = common.ceil_div(self.items, self.threads)
        self.units = c["across"] * c["rows"]
        input_bytes = 16 * self.items * common.pick(self.k_tiles > 1, 2, 1)
        staged = c["filter_stages"] * c["groups"] * self.filter_bytes + input_bytes
        share = common.ceil_div(self.units, c["split"])
        parts = common.pick(c["split"] > 1, 16 * c["split"] * share * self.threads, 0)
        self.shared_bytes = common.larger(staged, parts) + 8 * c["filter_stages"]
        self.filter_tiles = common.ceil_div(shape.n, FILTERS * c["groups"]) * c["groups"]
        across = common.ceil_div(ow, SIDE * c["across"])
        self.tiles = (
            shape.images * shape.groups * common.ceil_div(oh, c["rows"]) * across,
            self.filter_tiles // c["groups"],
            c["split"],
        )

    @property
    def registers(self) -> int:
        """Estimate of the registers of a thread: sums, and cells that are loaded."""
        return 4 * self.units + OTHER_REGISTERS + self.own_items

    @property
    def resident(self) -> int:
        """Blocks that fit on a multiprocessor."""
        registers = common.ceil_div(self.registers, 8) * 8
        return resident_blocks(self.threads, registers, self.shared_bytes)


def offered(shape: Conv2dNhwc, target: Target) -> bool:
    """Return whether these kernels compute a convolution on a target."""
    kinds = shape.dtype in HALVES and has_wgmma(target)
    planes = shape.h * shape.w * CHUNKS[-1], math.prod(shape.window.results(shape.h, shape.w))
    return kinds and max(planes) <= INT32_MAX and shape.window.taps <= MOST_TAPS


def candidates(shape: Conv2dNhwc) -> dict[str, list[int]]:
    """Return the values each knob may take for a shape.

    Other families of the space have knobs ``chunk`` and ``stages``, which begin elsewhere.
    """
    oh, ow = shape.window.results(shape.h, shape.w)
    return {
        "rows": common.up_to(oh + 1, ROWS) if oh > 1 else [ROWS[0]],
        "across": [1, 2] if ow > SIDE else [1],
        "groups": [1, 2] if shape.n > FILTERS else [1],
        "channels": common.up_to(max(16, shape.a_run), CHUNKS),
        "filter_stages": [1, 2, 3],
        "split": common.up_to(max(1, shape.a_run // 16), RANGES),
    }


def violation(shape: Conv2dNhwc, choice: Mapping[str, int], target: Target) -> str | None:
    """Return why a choice cannot run or is sure to be slow, or None."""
    return common.first_broken(_rules(choice, shape, target))


def _rules(choice: Mapping[str, int], shape: Conv2dNhwc, target: Target) -> list[tuple[bool, str]]:
    """Return the rules of `violation`; choices may be arrays of them."""
    tiling, c = CellsTiling(shape, choice), choice
    left = (c["split"] - 1) * tiling.k_tiles * c["channels"]
    return [
        *common.limit_rules(tiling, target.limits),
        (not has_wgmma(target), "no wgmma"),
        (4 * tiling.units > MOST_SUMS, "too many sums"),
        (tiling.own_items > MOST_ITEMS, "too many cells of a thread"),
        (c["filter_stages"] > tiling.k_tiles, "more stages than K tiles"),
        ((c["filter_stages"] == 1) & (tiling.k_tiles > 1), "no stage to prefetch"),
        (left >= shape.a_run, "an empty range"),
        (tiling.tiles[0] > INT32_MAX, "too many blocks"),
        (tiling.filter_tiles * shape.groups > 65535, "too many filters"),
    ]


def estimate(shape: Conv2dNhwc, choice: Mapping[str, int], target: Target) -> float:
    """Return a rough number of cycles, also of the filters; choices may be arrays of them.

    Its constants were fitted to 76 choices of 38 layers timed on an H200; errors have a root mean
    square of 18%.
    """
    tiling, c, taps = CellsTiling(shape, choice), choice, shape.window.taps
    count, blocks = common.multiprocessors(target), math.prod(tiling.tiles)
    # A cluster stays within one GPC, which cannot always be filled with clusters.
    waves = common.ceil_div(blocks, tiling.resident * (count - 4 * c["split"] * (c["split"] > 2)))
    together = common.smaller(tiling.resident, common.ceil_div(blocks, count))
    one = common.larger(6 * c["rows"] + 4, 34 + 3.9 * c["rows"])
    products = taps * c["channels"] // 16 * c["across"] * c["groups"] * one
    loads = LOADED * tiling.items
    filters = c["groups"] * tiling.filter_bytes / RATE
    busy = together * (products**4 + loads**4 + filters**4) ** 0.25
    alone = common.larger(products, loads) + LATENCY
    work = tiling.k_tiles * common.larger(busy, alone) + together * (loads + filters)
    written = WRITTEN * (1 + WRITTEN_ODD * (shape.window.results(shape.h, shape.w)[1] % 2))
    sums = tiling.units * c["groups"] * together
    # Of short K tiles eight blocks were slower than four in the mean of nine layers.
    by_eight = REDUCED_BY_EIGHT * (c["split"] > 4) * common.pick(c["channels"] > 16, 1, 3)
    reduced = REDUCED + by_eight + 17 * sums
    results = written * sums / c["split"] + reduced * (c["split"] > 1)
    packed = 4 * shape.co * shape.a_run * taps / count / PACKED
    cycles: float = LAUNCH + packed + waves * (PROLOGUE + work + results)
    return cycles


def default_choice(shape: Conv2dNhwc, target: Target) -> dict[str, int]:
    """Return a good guess for a shape that was never tuned: the best by estimate."""
    return choices.best_of_all(
        candidates(shape),
        partial(_rules, shape=shape, target=target),
        partial(estimate, shape, target=target),
    )


@lru_cache(maxsize=1024)
def untuned_cycles(shape: Conv2dNhwc, target: Target) -> float:
    """Return the estimate of the untuned choice; infinity where none can run."""
    if not offered(shape, target):
        return math.inf
    choice = default_choice(shape, target)
    return math.inf if violation(shape, choice, target) else estimate(shape, choice, target)


def kernel(shape: Conv2dNhwc, choice: Mapping[str, int]) -> SourceKernel:
    """Return the kernels of a choice of knobs: of the filters, and of the convolution."""
    tiling, c, w = CellsTiling(shape, choice), choice, shape.window
    (oh, ow), channels = w.results(shape.h, shape.w), tiling.k_tiles * c["split"] * c["channels"]
    sizes = common.defines(
        co=shape.n, ci=shape.a_run, ih=shape.h, iw=shape.w, oh=oh, ow=ow,
        kh=w.size[0], kw=w.size[1], sy=w.stride[0], sx=w.stride[1], py=w.padding[0],
        px=w.padding[1], dy=w.dilation[0], dx=w.dilation[1], conv_groups=shape.groups,
        rows=c["rows"], squares_across=c["across"], threads=tiling.threads,
        groups=c["groups"], chunk=c["channels"], chunks=tiling.k_tiles, stages=c["filter_stages"],
        split=c["split"], cluster=c["split"] > 1,
        planes_y=tiling.planes[0], planes_x=tiling.planes[1], plane_h=tiling.plane_h,
        plane_w=tiling.plane_w, resident=tiling.resident, tf32=0,
        bfloat16=shape.dtype == "bfloat16",
    )  # fmt: skip
    defines: dict[str, int | str] = {**sizes, **product_text(SIDE * c["rows"])}
    packing = (channels // 8, tiling.filter_tiles * shape.groups)
    calls = [
        call("pack_filters", ["weight", "packed"], packing, PACKERS),
        call(
            "conv2d_nchw_half", ["data", "packed", "out"], tiling.tiles, tiling.threads,
            tiling.shared_bytes, early=True,
        ),
    ]  # fmt: skip
    made = common.cuda_kernel(shape, TEXTS, defines, calls, flags=[f"-arch={ARCH}"])
    size = tiling.filter_tiles * shape.groups * FILTERS * channels * w.taps
    packed = workspace("packed", (size,), shape.dtype)
    return replace(made, args=arguments(shape), workspace=[packed], reference=reference(shape))
