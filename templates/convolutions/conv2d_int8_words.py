"""Convolutions of images of four 8-bit channels, as the first layers of networks are on Hopper.

A pixel is a word, so that windows need not be gathered: threads read their words of the left
operand of ``wgmma`` from a tile of the image in shared memory; `conv2d_int8_words.cu` says how.
Shapes, arguments and reference are those of `conv2d_int8`.
"""

from __future__ import annotations

from collections.abc import Mapping

from autotune import SourceKernel, Target, call

from .. import common
from ..products.gemm_wgmma import ARCH, has_wgmma, product_text
from .conv2d_int8 import IntegerConv2dNhwc, definitions

ENTRY = "conv2d_int8_words"
# Channels of a pixel, filter columns, filters (one instruction), and filter rows at most.
CHANNELS, MOST_COLUMNS, MOST_FILTERS, MOST_ROWS = 4, 8, 128, 16
# Pixels of a warp, in one row.
COLUMNS = 16
# Blocks of a multiprocessor down to which they compute several tiles each: filters are staged once
# for all. 64 filters of 7x7 on 32 images took an H200 33.7 us by blocks of four warpgroups and 8
# tiles, 45.6 by one tile; on one image 5.4, and by one warpgroup 9.3.
BUSY = 1.5


def offered(shape: IntegerConv2dNhwc, target: Target) -> bool:
    """Return whether these kernels compute a shape on a target."""
    w, end = shape.window, shape.end
    fits = shape.co % 16 == 0 and shape.co <= MOST_FILTERS and w.dilation == (1, 1)
    small = w.size[0] <= MOST_ROWS and w.size[1] <= MOST_COLUMNS and max(w.stride) <= COLUMNS // 4
    plain = end.out_dtype != "float32" and end.residual is None and shape.groups == 1
    return shape.ci == CHANNELS and fits and small and plain and has_wgmma(target)


def candidates(shape: IntegerConv2dNhwc) -> dict[str, list[int]]:
    """Return the values each knob may take for a shape."""
    return {"warpgroups": [1, 2, 4], "tiles": common.up_to(shape.out[0], (1, 2, 4, 8))}


def _blocks(shape: IntegerConv2dNhwc, choice: Mapping[str, int]) -> int:
    rows, columns = shape.out
    down = common.ceil_div(rows, 4 * choice["warpgroups"] * choice["tiles"])
    return shape.images * down * common.ceil_div(columns, COLUMNS)


def _slots(shape: IntegerConv2dNhwc) -> int:
    """Return the filter columns that K counts."""
    return 4 if shape.window.size[1] <= 4 else MOST_COLUMNS


def _shared_bytes(shape: IntegerConv2dNhwc, choice: Mapping[str, int]) -> int:
    (rows, _), (sy, sx), slots = shape.window.size, shape.window.stride, _slots(shape)
    warps, steps = 4 * choice["warpgroups"], common.ceil_div(rows * slots, 8)
    filters = common.ceil_div(steps, 4) * shape.co * 128
    boxes = warps * COLUMNS * (shape.co + 16)
    height, width = (warps - 1) * sy + steps * 8 // slots, (COLUMNS - 1) * sx + slots
    return 1024 + filters + boxes + 4 * height * width


def violation(shape: IntegerConv2dNhwc, choice: Mapping[str, int], target: Target) -> str | None:
    """Return why a choice cannot run or is sure to be slow, or None."""
    rows = 4 * choice["warpgroups"] * choice["tiles"]
    shared_bytes = _shared_bytes(shape, choice)
    return common.first_broken([
        (shared_bytes > target.limits.shared_bytes_optin, "too much shared memory"),
        (rows >= 2 * common.larger(shape.out[0], 4), "rows beyond the output"),
    ])  # fmt: skip


def default_choice(shape: IntegerConv2dNhwc, target: Target) -> dict[str, int]:
    """Return as many tiles of a block as leave enough blocks for each multiprocessor."""
    enough = BUSY * common.multiprocessors(target)
    every = [
        {"warpgroups": groups, "tiles": tiles}
        for groups in (4, 2, 1)
        for tiles in reversed(candidates(shape)["tiles"])
    ]
    fit = [choice for choice in every if violation(shape, choice, target) is None]
    busy = [choice for choice in fit if _blocks(shape, choice) >= enough]
    alone = [choice for choice in fit if choice["tiles"] == 1]
    return busy[0] if busy else alone[0]


def kernel(shape: IntegerConv2dNhwc, choice: Mapping[str, int]) -> SourceKernel:
    """Return the kernel of a choice of knobs."""
    more = common.defines(
        images=shape.images, kh=shape.window.size[0], slots=_slots(shape), int8=1, bfloat16=0,
        threads=128 * choice["warpgroups"], **choice,
    )  # fmt: skip
    names = [each.name for each in shape.arguments()]
    launch = _blocks(shape, choice), 128 * choice["warpgroups"], _shared_bytes(shape, choice)
    texts = "mma.h", "barriers.h", "wgmma.h", "wgmma_int8.h", "requantise.h", f"{ENTRY}.cu"
    return SourceKernel(
        ENTRY,
        common.text("device.h", *texts),
        defines={
            **definitions(shape), **more, **shape.end.defines(),
            **product_text(shape.co, True, True),
        },
        args=shape.arguments(),
        calls=[call(ENTRY, names, *launch)],
        reference=shape.reference(),
        flags=(f"-arch={ARCH}", *common.CUDA_FLAGS),
        language="cuda",
    )  # fmt: skip
