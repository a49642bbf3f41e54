"""Direct convolution for CUDA of few inputs a result: stems, and 1x1 layers of few channels.

A thread keeps the inputs of a few pixels in registers, for all filters: there is no loop over K
tiles, and each input is loaded once for a block of filters, which all threads read from shared
memory together. Such layers write much more than they read, and tiles of tensor cores, which end
at 64 filters and eight pixels of a row, store parts of sectors where planes are odd.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from functools import lru_cache, partial

from autotune import SourceKernel, Target, call

from .. import choices, common
from ..occupancy import resident_blocks
from .conv2d_shape import Conv2d

# Most inputs of a result, and most that a thread holds.
LONGEST, MOST_HELD = 64, 128


class SmallKTiling:
    """The sizes that follow from a shape and a choice of knobs; the kernel text needs the same."""

    def __init__(self, shape: Conv2d, choice: Mapping[str, int]) -> None:
        c = choice
        self.inputs, self.threads = shape.ci // shape.groups * shape.taps, c["threads"]
        self.pitch = 4 * common.ceil_div(self.inputs, 4)
        together = common.pick(c["each"] >= 4, 2, common.pick(c["each"] == 2, 4, 8))
        self.steps = common.ceil_div(c["filters"], together)
        self.rows = together * self.steps
        self.shared_bytes = 4 * self.rows * self.pitch
        self.held = c["each"] * self.pitch
        pixels = shape.n * shape.oh * shape.ow
        self.grid = (
            common.ceil_div(pixels, c["threads"] * c["each"]),
            common.ceil_div(shape.co // shape.groups, c["filters"]),
            shape.groups,
        )

    @property
    def registers(self) -> int:
        """Estimate of the registers of a thread: inputs, sums, a filter, and addresses."""
        return self.held + 44

    @property
    def resident(self) -> int:
        """Blocks that fit on a multiprocessor."""
        return resident_blocks(self.threads, self.registers, self.shared_bytes)


def offered(shape: Conv2d) -> bool:
    """Return whether sums are short enough."""
    return shape.ci // shape.groups * shape.taps <= LONGEST and shape.groups < 2**16


def candidates(shape: Conv2d) -> dict[str, list[int]]:
    """Return the values each knob may take for a shape."""
    filters = shape.co // shape.groups
    parts = {common.ceil_div(filters, count) for count in (1, 2, 3, 4, 6, 8, 12, 16)}
    return {
        "filters": sorted({min(128, part) for part in parts}),
        "each": [1, 2, 4],
        "threads": [64, 128, 256],
    }


def violation(shape: Conv2d, choice: Mapping[str, int], target: Target) -> str | None:
    """Return why a choice cannot run or is sure to be slow, or None."""
    return common.first_broken(_rules(choice, shape, target))


def _rules(choice: Mapping[str, int], shape: Conv2d, target: Target) -> list[tuple[bool, str]]:
    """Return the rules of `violation`; choices may be arrays of them."""
    tiling, c = SmallKTiling(shape, choice), choice
    return [
        *common.limit_rules(tiling, target.limits),
        ((c["each"] > 1) & (tiling.held > MOST_HELD), "too many inputs"),
        (tiling.grid[1] > target.limits.grid_dim[1], "too many blocks"),
    ]


# Factors of the estimate: cycles of a scheduler for a product, and for what follows a sum; of a
# multiprocessor for a load of four floats of a filter, and for one of inputs whose columns are
# neighbours; of a block that is alone for itself, for each filter element that a thread copies,
# each product, and each time that it waits for residuals; bytes that memory moves in a cycle, and
# cycles of the kernel.
PRODUCT, AFTER, FILTER_LOAD, INPUT_LOAD = 1.34, 4.05, 1.32, 0.69
BLOCK, COPY, ALONE, RESIDUAL = 174, 169, 1.61, 300
MEMORY_BYTES, START = 1760, 2900
# Floats of a sector.
SECTOR = 8


def estimate(shape: Conv2d, choice: Mapping[str, int], target: Target) -> float:
    """Return a rough number of cycles; choices may be arrays of them.

    Factors are those of the least error, 13%, for 170 choices of 66 layers on an H200.
    """
    tiling, c = SmallKTiling(shape, choice), choice
    count, warps = common.multiprocessors(target), c["threads"] // 32
    blocks = math.prod(tiling.grid)
    after = AFTER + 16 * shape.epilogue.has_powers
    sums = tiling.rows * c["each"]
    issued = sums * (PRODUCT * tiling.pitch + after) / 4
    issued = issued + FILTER_LOAD * tiling.rows * tiling.pitch / 4
    issued = warps * (issued + INPUT_LOAD * tiling.held * min(SECTOR, shape.stride[1]))
    copied = COPY * tiling.rows * tiling.pitch / c["threads"]
    alone = BLOCK + copied + ALONE * sums * (tiling.pitch + after)
    alone = alone + RESIDUAL * shape.residual * tiling.steps
    alone = alone * common.ceil_div(blocks, count * tiling.resident)
    work = ((common.ceil_div(blocks, count) * issued) ** 4 + alone**4) ** (1 / 4)
    read = shape.n * shape.ci * min(shape.h, shape.oh * shape.kh) * shape.w
    moved = read + shape.outputs * (1 + shape.residual)
    memory = 4 * moved / MEMORY_BYTES
    cycles: float = (work**3 + memory**3) ** (1 / 3) + START
    return cycles


@lru_cache(maxsize=1024)
def untuned_cycles(shape: Conv2d, target: Target) -> float:
    """Return the cycles of the untuned choice; infinity where none can run."""
    choice = default_choice(shape, target)
    if violation(shape, choice, target):
        return math.inf
    return estimate(shape, choice, target)


def default_choice(shape: Conv2d, target: Target) -> dict[str, int]:
    """Return a good guess for a shape that was never tuned: the best by estimate."""
    return choices.best_of_all(
        candidates(shape),
        partial(_rules, shape=shape, target=target),
        partial(estimate, shape, target=target),
    )


def kernel(shape: Conv2d, choice: Mapping[str, int]) -> SourceKernel:
    """Return the kernel of a choice of knobs."""
    s, tiling = shape, SmallKTiling(shape, choice)
    channels, filters = s.ci // s.groups, s.co // s.groups
    (sy, sx), (dy, dx), (py, px, *_) = s.stride, s.dilation, s.window.padding
    sizes = common.defines(
        batch=s.n, co=filters, ci=channels, ih=s.h, iw=s.w, oh=s.oh, ow=s.ow, kh=s.kh, kw=s.kw,
        sy=sy, sx=sx, py=py, px=px, dy=dy, dx=dx, conv_groups=s.groups,
        padded=any(s.window.padding), **s.epilogue.defines(), **s.planes.defines(), **choice,
    )  # fmt: skip
    names = ["data", "weight", *s.epilogue.names("weight"), "out"]
    calls = [call("conv2d_small_k", names, tiling.grid, tiling.threads, tiling.shared_bytes)]
    texts = ["epilogue.h", "volume_planes.h", "conv2d_small_k.cu"]
    return common.cuda_kernel(shape, texts, {**sizes, **s.epilogue.texts()}, calls)
