"""Convolutions of NHWC images of 16-bit floats by few filters, on tensor cores.

As an implicit GEMM (`conv2d_nhwc`) most columns of a tile would be empty, and every pixel would be
loaded once per tap. Here a pixel is loaded once and multiplied by all taps of all filters, which
together fill a tile, and the partial sums of an output pixel are added up in shared memory
(col2im). The last layers of decoders are such: 128 channels become three.
"""

from __future__ import annotations

from collections.abc import Container, Mapping
from functools import partial
from typing import Any

from autotune import SourceKernel, Target, call

from .. import common
from ..products.gemm_shape import HALVES, first_names, result_name
from .conv2d_nhwc import Conv2dNhwc

# Filters, and columns of the product, that kernels are for.
MOST_FILTERS, MOST_COLUMNS = 8, 128
# Bytes of shared memory, and how often a pixel may be loaded, with tiles of 16 x 16 outputs.
MOST_SHARED, MOST_READ, USUAL_SIDE = 160 * 1024, 4, 16
# Registers of a thread besides sums and operands.
OTHER_REGISTERS = 40


def offered(shape: Conv2dNhwc) -> bool:
    """Return whether a convolution is one that these kernels compute."""
    few = shape.co <= MOST_FILTERS and 1 < shape.window.taps <= MOST_COLUMNS // shape.co
    plain = shape.groups == 1 and shape.dtype in HALVES and shape.ci % 8 == 0
    if not few or not plain:
        return False
    sides = [common.smaller(each, USUAL_SIDE) for each in shape.window.results(shape.h, shape.w)]
    usual = SkinnyTiling(shape, {"tile_h": sides[0], "tile_w": sides[1], **_LEAST})
    (sy, sx), own = shape.window.stride, sides[0] * sides[1]
    return usual.shared_bytes <= MOST_SHARED and usual.pixels <= MOST_READ * own * sy * sx


def chosen_before(knobs: Container[str]) -> bool:
    """Return whether knobs were chosen when there were products only: old logs stay valid."""
    return "warps_m" in knobs


_LEAST = {"warps": 1, "together": 1, "ahead": 1}


class SkinnyTiling:
    """The sizes that follow from a shape and a choice of knobs."""

    def __init__(self, shape: Conv2dNhwc, choice: Mapping[str, int]) -> None:
        c, w = choice, shape.window
        self.threads = 32 * c["warps"]
        (sy, sx), (dy, dx), (kh, kw) = w.stride, w.dilation, w.size
        self.pixels = ((c["tile_h"] - 1) * sy + (kh - 1) * dy + 1) * (
            (c["tile_w"] - 1) * sx + (kw - 1) * dx + 1
        )
        columns = w.taps * shape.co
        self.frags, self.frags_n = common.ceil_div(self.pixels, 16), common.ceil_div(columns, 8)
        self.steps = common.ceil_div(shape.ci, 32)
        self.shared_bytes = 512 * self.steps * self.frags_n + 4 * columns * (16 * self.frags + 4)
        oh, ow = w.results(shape.h, shape.w)
        down, across = common.ceil_div(oh, c["tile_h"]), common.ceil_div(ow, c["tile_w"])
        self.blocks = shape.images * down * across
        operands = 8 * c["ahead"] + 4 * self.frags_n + 6
        self.registers = c["together"] * operands + OTHER_REGISTERS


def candidates(shape: Conv2dNhwc) -> dict[str, list[int]]:
    """Return the values each knob may take for a shape."""
    oh, ow = shape.window.results(shape.h, shape.w)
    steps = common.ceil_div(shape.ci, 32)
    return {
        "tile_h": common.up_to(oh, (1, 2, 4, 8, 16, 32)),
        "tile_w": common.up_to(ow, (4, 8, 16, 32, 64, 128)),
        "warps": [1, 2, 4, 8, 16],
        "together": [1, 2],
        "ahead": common.up_to(steps, (1, 2, 4)),
    }


def violation(shape: Conv2dNhwc, choice: Mapping[str, int], target: Target) -> str | None:
    """Return why a choice cannot run or is sure to be slow, or None."""
    return common.first_broken(_rules(choice, shape, target))


def _rules(choice: Mapping[str, int], shape: Conv2dNhwc, target: Target) -> list[tuple[bool, str]]:
    """Return the rules of `violation`; choices may be arrays of them."""
    tiling = SkinnyTiling(shape, choice)
    return [
        *common.limit_rules(tiling, target.limits),
        (tiling.frags < choice["warps"] * choice["together"], "warps without pixels"),
    ]


def estimate(shape: Conv2dNhwc, choice: Mapping[str, int], target: Target) -> float:
    """Return a rough number of cycles: a launch, filters, pixels as they come, and sums.

    The constants were fitted to 280 choices for nine layers on an H200; of these the choice of the
    least takes 1.08 times as long as the best (geometric mean).
    """
    tiling, c = SkinnyTiling(shape, choice), choice
    occupied = common.occupancy(
        target, tiling.blocks, tiling.threads, tiling.registers, tiling.shared_bytes
    )
    turns = common.ceil_div(tiling.frags, c["warps"] * c["together"])
    chunks = common.ceil_div(tiling.steps, c["ahead"])
    products = c["ahead"] * c["together"] * tiling.frags_n
    latency = turns * (300 + chunks * (300 + 50 * products))
    copies = tiling.frags * 16 * shape.ci * 2 / 22
    issued = tiling.frags * tiling.steps * tiling.frags_n * (8 + 1.5 / c["together"])
    filters = 65 * shape.k * shape.co / tiling.threads
    sums = shape.window.taps * shape.co * c["tile_h"] * c["tile_w"] / 8 * occupied.together
    work = max(latency, copies * occupied.together, issued * occupied.together)
    return 3600 + occupied.waves * (work + filters + sums)


def default_choice(shape: Conv2dNhwc, target: Target) -> dict[str, int]:
    """Return a good guess for a shape that was never tuned: the best by estimate of all."""
    rules: Any = partial(_rules, shape=shape, target=target)
    options = candidates(shape)
    return common.best_drawn_at_once(options, 2000, rules, partial(estimate, shape, target=target))


def kernel(shape: Conv2dNhwc, choice: Mapping[str, int]) -> SourceKernel:
    """Return the kernel of a choice of knobs."""
    tiling, c = SkinnyTiling(shape, choice), choice
    sizes = common.defines(
        kh=shape.window.size[0], co=shape.co, c_n=shape.co, int8=0, tf32=0,
        bfloat16=shape.dtype == "bfloat16", element=1 + HALVES.index(shape.dtype),
        threads=tiling.threads, tile_h=c["tile_h"], tile_w=c["tile_w"], together=c["together"],
        ahead=c["ahead"],
    )  # fmt: skip
    names = [*first_names(shape), result_name(shape)]
    return common.cuda_kernel(
        shape,
        ["elements.h", "epilogue.h", "operands.h", "mma.h", "conv2d_few_filters.cu"],
        {**sizes, **shape.operands(), "M": shape.m, "N": shape.n, "K": shape.k},
        [call("conv2d_few_filters", names, (tiling.blocks,), tiling.threads, tiling.shared_bytes)],
    )
