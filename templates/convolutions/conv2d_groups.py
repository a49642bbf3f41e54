"""Convolutions of NHWC images of 16-bit floats in groups of few channels, on tensor cores.

As batched implicit GEMM (`gemm_mma`) groups of 8 channels fill an eighth of a tile's columns, and
every pixel is loaded nine times for a 3x3 filter. Here a block loads an input tile with its halo
once, and left operands are read from shared memory, two taps of 8 channels for one ``mma.sync``;
the filters of a group stay in the registers of a warp, or of several, which then have a part of
them each.
"""

from __future__ import annotations

from collections.abc import Container, Mapping
from dataclasses import replace
from functools import partial
from typing import Any

from autotune import SourceKernel, Target, call

from .. import common
from ..products.gemm_shape import HALVES, first_names, result_name
from .conv2d_nhwc import Conv2dNhwc

# 32-bit words of filters that a thread can hold in registers.
MOST_FILTERS = 72
# Warps that may share the filters of a group. On an H100 groups of 64 channels by 3x3 filters, in
# eight warps, were slower than by ``mma.sync`` without halos; of 40 to 56 channels, in five to
# seven warps, three of four layers were faster.
MOST_FILTER_WARPS = 7
# Least threads of a block where nothing was tuned.
LEAST_THREADS = 128
# Registers of a thread besides filters and sums.
OTHER_REGISTERS = 48


def joined(shape: Conv2dNhwc) -> Conv2dNhwc:
    """Return the shape with groups of 2 or 4 channels merged into groups of 8.

    The filters of a merged group are block diagonal: zero between channels of different groups.
    """
    several = 8 // shape.a_run if shape.a_run in (2, 4) else 1
    return replace(shape, groups=shape.groups // several) if shape.groups % several == 0 else shape


def _words(shape: Conv2dNhwc) -> int:
    """Return the words of filters that a thread has."""
    octets = shape.window.taps * shape.a_run // 8
    return 2 * common.ceil_div(octets, 2) * (shape.n // 8)


def _filter_warps(shape: Conv2dNhwc) -> int:
    """Return the warps that share the filters of a group, so that registers hold them, or 0."""
    fragments = shape.n // 8
    most = min(fragments, MOST_FILTER_WARPS)
    divisors = (warps for warps in range(1, most + 1) if fragments % warps == 0)
    return next((warps for warps in divisors if _words(shape) <= MOST_FILTERS * warps), 0)


def offered(shape: Conv2dNhwc) -> bool:
    """Return whether a convolution is one that these kernels compute."""
    whole = joined(shape)
    eights = whole.a_run % 8 == 0 and whole.n % 8 == 0 and (shape.n % 8 == 0 or shape.n in (2, 4))
    grouped = shape.groups > 1 and shape.dtype in HALVES and not shape.transpose_b
    return grouped and eights and _filter_warps(whole) > 0


def chosen_before(knobs: Container[str]) -> bool:
    """Return whether knobs were chosen when there was only ``mma.sync``: old logs stay valid."""
    return "warps_m" in knobs


def chosen(knobs: Container[str]) -> bool:
    """Return whether knobs were chosen for these kernels."""
    return "tile_h" in knobs


class GroupsTiling:
    """The sizes that follow from a shape and a choice of knobs."""

    def __init__(self, shape: Conv2dNhwc, choice: Mapping[str, int]) -> None:
        shape = joined(shape)
        c, w = choice, shape.window
        self.filter_warps = _filter_warps(shape)
        self.threads = 32 * c["groups"] * self.filter_warps * c["warps"]
        (sy, sx), (dy, dx), (kh, kw) = w.stride, w.dilation, w.size
        self.window_pixels = ((c["tile_h"] - 1) * sy + (kh - 1) * dy + 1) * (
            (c["tile_w"] - 1) * sx + (kw - 1) * dx + 1
        )
        self.octets = c["groups"] * shape.a_run // 8
        self.pixels = c["tile_h"] * c["tile_w"]
        pitch = self.octets + 1 - self.octets % 2
        rows = common.larger(self.pixels, shape.window.taps * shape.a_run)
        self.shared_bytes = 16 * self.window_pixels * pitch
        self.shared_bytes += 2 * rows * (c["groups"] * shape.n + 8)
        oh, ow = w.results(shape.h, shape.w)
        down, across = common.ceil_div(oh, c["tile_h"]), common.ceil_div(ow, c["tile_w"])
        self.blocks = shape.images * down * across
        words, sums = _words(shape) // self.filter_warps, shape.n // self.filter_warps // 2
        self.registers = words + c["together"] * (sums + 8) + OTHER_REGISTERS

    @property
    def frags(self) -> int:
        """Fragments of 16 pixels of a tile."""
        return common.ceil_div(self.pixels, 16)


def _side(extent: int) -> list[int]:
    """Return how many pixels along a side tiles may have."""
    even = {common.ceil_div(extent, parts) for parts in (1, 2, 3, 4, 8)}
    return sorted({size for size in even | {1, 2, 4, 8, 16, 32} if size <= min(extent, 64)})


def candidates(shape: Conv2dNhwc) -> dict[str, list[int]]:
    """Return the values each knob may take for a shape."""
    shape = joined(shape)
    oh, ow = shape.window.results(shape.h, shape.w)
    return {
        "tile_h": _side(oh),
        "tile_w": _side(ow),
        "groups": [each for each in (1, 2, 4, 8, 16) if shape.groups % each == 0],
        "warps": [1, 2, 4, 8],
        "together": [1, 2, 4] if shape.n <= 16 * _filter_warps(shape) else [1, 2],
    }


def violation(shape: Conv2dNhwc, choice: Mapping[str, int], target: Target) -> str | None:
    """Return why a choice cannot run or is sure to be slow, or None."""
    return common.first_broken(_rules(choice, shape, target))


def _rules(choice: Mapping[str, int], shape: Conv2dNhwc, target: Target) -> list[tuple[bool, str]]:
    """Return the rules of `violation`; choices may be arrays of them."""
    tiling = GroupsTiling(shape, choice)
    return [
        *common.limit_rules(tiling, target.limits),
        (tiling.pixels > 512, "a tile of too many pixels"),
        (choice["warps"] * choice["together"] > tiling.frags, "warps without pixels"),
        (tiling.threads > 512, "too many warps"),
    ]


def estimate(shape: Conv2dNhwc, choice: Mapping[str, int], target: Target) -> float:
    """Return a rough number of cycles: a launch, copies, and loads and products or their latency.

    The constants were fitted to 450 choices for 11 layers of 1 to 32 images on an H200; the choice
    of the least takes 1.08 times as long as the best of 40 (geometric mean).
    """
    shape = joined(shape)
    tiling, c = GroupsTiling(shape, choice), choice
    blocks = tiling.blocks * (shape.groups // c["groups"])
    occupied = common.occupancy(
        target, blocks, tiling.threads, tiling.registers, tiling.shared_bytes
    )
    fragments, width = shape.n // 8 // tiling.filter_warps, 2 * c["groups"] * shape.n
    steps = _words(shape) // (2 * (shape.n // 8))
    # Latency of loads and products, unless other warps or independent products hide it.
    rounds = common.ceil_div(common.ceil_div(tiling.frags, c["warps"]), c["together"])
    each = c["together"] * (116 + steps * (17 + 5 * fragments))
    latency = rounds * (60 + 40 * steps + each)
    issued = rounds * c["together"] * (64 + steps * (5 + 2 * fragments)) * tiling.threads / 128
    images = 16 * tiling.window_pixels * tiling.octets + tiling.pixels * width
    filters = shape.window.taps * shape.a_run * width
    # Each 16 bytes take some instructions, and rows of few groups do not fill cache lines.
    copies = (images + filters) * (17 / 2048 + 1 / 87) + images / (74 * min(1.0, width / 64))
    work = max(latency, issued * occupied.together) + copies * occupied.together
    return 4600 + occupied.waves * work


def default_choice(shape: Conv2dNhwc, target: Target) -> dict[str, int]:
    """Return a good guess for a shape that was never tuned: the best by estimate of a sample."""
    options = candidates(shape)

    def rules(choice: Any) -> list[tuple[bool, str]]:
        few = GroupsTiling(shape, choice).threads < LEAST_THREADS
        return [*_rules(choice, shape, target), (few, "few threads")]

    return common.best_drawn_at_once(options, 5000, rules, partial(estimate, shape, target=target))


def kernel(shape: Conv2dNhwc, choice: Mapping[str, int]) -> SourceKernel:
    """Return the kernel of a choice of knobs."""
    tiling, c, whole = GroupsTiling(shape, choice), choice, joined(shape)
    sizes = common.defines(
        kh=shape.window.size[0], group_co=whole.n, filter_warps=tiling.filter_warps,
        joined=shape.groups // whole.groups,
        co=shape.co, c_n=shape.co, int8=0, tf32=0,
        bfloat16=shape.dtype == "bfloat16", element=1 + HALVES.index(shape.dtype),
        threads=tiling.threads, tile_h=c["tile_h"], tile_w=c["tile_w"],
        block_groups=c["groups"], warps=c["warps"], together=c["together"],
    )  # fmt: skip
    names = [*first_names(shape), result_name(shape)]
    grid = (tiling.blocks, whole.groups // c["groups"])
    return common.cuda_kernel(
        shape,
        ["elements.h", "epilogue.h", "operands.h", "mma.h", "pairs.h", "conv2d_groups.cu"],
        {**sizes, **whole.operands(), "M": whole.m, "N": whole.n, "K": whole.k},
        [call("conv2d_groups", names, grid, tiling.threads, tiling.shared_bytes)],
    )
