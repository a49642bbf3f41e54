"""Convolutions of float32 on Hopper's tensor cores: each float as the sum of three of bfloat16.

The arithmetic is that of `gemm_bf16x3`: the six largest of nine exact products. What differs:

- A layer of one image takes hardly longer than a second launch, so a single kernel splits and
  multiplies. The filters are the left operand, from registers: each is split once, by the thread
  that multiplies it. The input is the right operand, from shared memory: the input tile with its
  halo is split once, and the taps of the filters read it at shifted addresses (implicit GEMM).
- The channels are split among warpgroups, and among the blocks of a cluster (split-K), which
  reduce their accumulators through distributed shared memory: layers of one image have few tiles.
- The large products of a K tile and the small ones have separate accumulators, which are added up
  as floats, since tensor cores truncate. On an H200 root mean squares of errors, relative to the
  sum of absolute products, were 0.6 to 1.0 of those by ``fmaf``; of positive numbers sums were too
  small by up to 2e-7, and their errors at most 5e-7 (by ``fmaf`` 9e-7).
- A K tile with floats that cannot be split, such as infinities and NaNs, is multiplied by ``fmaf``
  in the warps that have it.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from functools import lru_cache, partial

from autotune import SourceKernel, Target, call

from .. import choices, common
from ..occupancy import resident_blocks
from ..products.gemm_wgmma import ARCH, has_wgmma
from . import conv2d_cuda
from .conv2d_shape import Conv2d

# A warpgroup: its threads, filters (rows of an MMA), and pixels of a row.
THREADS, TILE_CO, TILE_X = 128, 64, 8
# Rows of a tile for which there are instructions.
ROWS = (2, 4, 5, 6, 7, 8, 10, 12, 14)
# Up to as many input channels K runs along the taps of a row.
FEW_CHANNELS = 4
# Of `cycles`: how much longer it takes to store rows that share sectors with their neighbours,
# and bytes that memory moves in a cycle of so many multiprocessors.
STRADDLED, BYTES_A_CYCLE, MULTIPROCESSORS = 2.8, 1940, 132
# Of `cycles` too: of a warpgroup for 64 filter elements that are copied one at a time, since rows
# of filters are odd. 32 choices of 15 such layers on an H200 took 1.15 times the estimate without
# it, and 0.93 times with it, with errors of 20% and not of 29%.
SINGLE_COPIES = 16
# Taps of filters with odd rows of which three stages spill the addresses of copies: a thread makes
# four for each tap, and as many again before the loop. Of more taps copies are not unrolled. nvcc
# 13.0 spills 236 to 552 bytes a thread of 3x7 and 5x5 filters so, at most 28 of up to 15 taps, and
# 24 where rows are even; 5x5 took an H200 62 us, and 33 without unrolling.
SPILLED_TAPS = (16, 32)


class PiecesTiling:
    """The sizes that follow from a shape and a choice of knobs."""

    def __init__(self, shape: Conv2d, choice: Mapping[str, int]) -> None:
        c = choice
        self.whole, self.shape, self.choice = shape, tiled(shape), choice
        shape = self.shape
        (sy, sx), (dy, dx) = shape.stride, shape.dilation
        self.fold = is_folded(shape)
        self.wrapped = shape.kw > 1 and shape != self.whole.one_group
        self.chunk = shape.ci if self.fold else c["chunk"]
        workers = c["split"] * c["slices"]
        self.k_tiles = common.ceil_div(common.ceil_div(shape.ci, self.chunk), workers)
        self.threads = THREADS * c["slices"]
        # With a stride, cells are deinterleaved into a plane for each phase.
        self.planes_y = 1 if shape.kh == 1 else sy
        self.planes_x = 1 if shape.kw == 1 or self.fold else sx
        self.plane_h = c["rows"] + (shape.kh - 1) * dy // sy
        self.plane_w = TILE_X + (0 if self.fold else (shape.kw - 1) * dx // sx)
        self.cells = self.planes_y * self.planes_x * self.plane_h * self.plane_w
        self.eights = shape.ci if self.fold else self.chunk // 8
        along = shape.kh if self.fold else shape.taps
        self.steps = common.ceil_div(self.eights * along, 2)
        flat = self.chunk * shape.taps
        # Avoids bank conflicts of 8-byte loads.
        self.w_pitch = flat if self.fold else flat + (8 - flat) % 16
        w_bytes = 4 * TILE_CO * self.w_pitch
        x_bytes = 3 * 16 * self.eights * self.cells * common.pick(self.k_tiles > 1, 2, 1)
        # Accumulators reuse the memory of the filters.
        sums_bytes = common.pick(c["slices"] > 1, 16 * THREADS * c["rows"], 0)
        self.slice_bytes = common.larger(c["stages"] * w_bytes + x_bytes, sums_bytes)
        share = common.ceil_div(c["rows"], c["split"])
        parts = common.pick(c["split"] > 1, c["split"] * share, 0)
        self.shared_bytes = c["slices"] * (self.slice_bytes + 8) + 16 * THREADS * parts + 8
        self.tiles = (
            shape.n * common.ceil_div(shape.oh, c["rows"]) * common.ceil_div(shape.ow, TILE_X),
            common.ceil_div(shape.co, TILE_CO),
            c["split"],
        )

    @property
    def registers(self) -> int:
        """Estimate of the registers of a thread: accumulators, pieces, and prefetched operands."""
        return self.sums + 32 + 16 * self.choice["ahead"]

    @property
    def sums(self) -> int:
        """Registers of accumulators, and of the next input tile where one is prefetched."""
        rows = self.choice["rows"]
        batched = common.ceil_div(self.eights * self.cells, THREADS)
        batched = batched + (batched > 4) * (4 - batched)
        return common.pick(self.k_tiles > 1, 12 * rows + 8 * batched, 8 * rows)

    @property
    def resident(self) -> int:
        """Blocks that fit on a multiprocessor."""
        return resident_blocks(self.threads, self.registers, self.shared_bytes)

    @property
    def straddles(self) -> bool:
        """Whether rows of a tile's results are not aligned to sectors of 32 bytes."""
        plane = self.whole.oh * self.whole.ow
        return (plane if self.shape.ow == TILE_X else self.whole.ow) % TILE_X > 0

    @property
    def w_copy(self) -> int:
        """Neighbouring elements of filters that are copied at once."""
        s = self.shape
        flat = s.ci * s.taps
        if self.fold:
            return common.widest(TILE_CO * flat, s.co * flat)
        return common.widest(flat, self.chunk * s.taps)

    @property
    def spills(self) -> bool:
        """Whether the compiler keeps more addresses of copies than there are registers."""
        least, most = SPILLED_TAPS
        odd = self.shape.ci * self.shape.taps % 2 > 0
        return (odd and least <= self.shape.taps <= most) & (self.choice["stages"] > 2)

    def groups(self) -> list[tuple[int, int]]:
        """Return (cell, tap) of each block of 8 along K, ordered by cell."""
        s, size = self.shape, self.plane_h * self.plane_w
        (sy, sx), (dy, dx) = s.stride, s.dilation
        found = []
        for eight in range(self.eights):
            for ky in range(s.kh):
                for kx in range(1 if self.fold else s.kw):
                    plane = ky * dy % sy * self.planes_x + kx * dx % sx
                    inside = ky * dy // sy * self.plane_w + kx * dx // sx
                    tap = (eight * s.kh + ky) * (1 if self.fold else s.kw) + kx
                    found.append((eight * self.cells + plane * size + inside, tap))
        return sorted(found)

    def defines(self) -> Mapping[str, int | str]:
        """Return everything the kernel text is parameterised by."""
        s, c = self.shape, self.choice
        groups = self.groups()
        knobs = common.defines(
            co=s.co, ci=s.ci, ih=s.h, iw=s.w, oh=s.oh, ow=s.ow,
            in_plane=self.whole.h * self.whole.w, out_plane=self.whole.oh * self.whole.ow,
            kh=s.kh, kw=s.kw,
            sy=s.stride[0], sx=s.stride[1], py=s.padding[0], px=s.padding[1],
            dy=s.dilation[0], dx=s.dilation[1], conv_groups=self.whole.groups,
            **s.epilogue.defines(), **s.planes.defines(),
            threads=THREADS, rows=c["rows"], slices=c["slices"], split=c["split"],
            stages=c["stages"], ahead=c["ahead"], chunk=self.chunk, chunks=self.k_tiles,
            cluster=c["split"] > 1, resident=self.resident, fold=self.fold,
            planes_y=self.planes_y, planes_x=self.planes_x, plane_h=self.plane_h,
            plane_w=self.plane_w, wrapped=self.wrapped, slice_bytes=self.slice_bytes,
            w_pitch=self.w_pitch, w_copy=self.w_copy, groups=len(groups),
            bfloat16=1, tf32=0,
        )  # fmt: skip
        cells, taps = (
            ", ".join(str(each) for each in column) for column in zip(*groups, strict=True)
        )
        return {**knobs, **s.epilogue.texts(), "GROUP_CELLS": cells, "GROUP_TAPS": taps}


@lru_cache(maxsize=1024)
def tiled(shape: Conv2d) -> Conv2d:
    """Return the shape for tiling: images of pointwise layers have rows of a tile's width.

    Dilated lines are images whose rows are as long as the dilation, and other lines images of rows
    of a tile's width, each of which continues in the next one.
    """
    image = shape.one_group.in_rows_of(TILE_X).in_rows_of_dilation(TILE_X)
    return image.in_wrapped_rows(TILE_X)


def is_folded(shape: Conv2d) -> bool:
    """Return whether K runs along the taps of a row, since channels are few."""
    return shape.ci <= FEW_CHANNELS and 1 < shape.kw <= 8


def offered(shape: Conv2d, target: Target) -> bool:
    """Return whether a target has these instructions, and they pay for a shape."""
    alone = shape.alone
    own = untuned_cycles(alone, target)
    return own < math.inf and own <= conv2d_cuda.untuned_cycles(alone, target)


@lru_cache(maxsize=1024)
def untuned_cycles(shape: Conv2d, target: Target) -> float:
    """Return the cycles of the untuned choice; infinity where none can run."""
    if not has_wgmma(target):
        return math.inf
    choice = default_choice(shape, target)
    return math.inf if violation(shape, choice, target) else cycles(shape, choice, target)


def candidates(shape: Conv2d) -> dict[str, list[int]]:
    """Return the values each knob may take for a shape."""
    shape = tiled(shape)
    few = is_folded(shape)
    return {
        "rows": common.up_to(shape.oh + 1, ROWS),
        "chunk": [8] if few else common.up_to(max(16, shape.ci), (8, 16, 32, 64)),
        "slices": [1] if few else common.up_to(max(1, shape.ci // 8), (1, 2, 3, 4)),
        "split": [1] if few else common.up_to(max(1, shape.ci // 8), (1, 2, 4, 8)),
        "stages": [1] if few else [1, 2, 3],
        "ahead": [2, 3],
    }


def violation(shape: Conv2d, choice: Mapping[str, int], target: Target) -> str | None:
    """Return why a choice cannot run or is sure to be slow, or None."""
    return common.first_broken(_rules(choice, shape, target))


def _rules(choice: Mapping[str, int], shape: Conv2d, target: Target) -> list[tuple[bool, str]]:
    """Return the rules of `violation`; choices may be arrays of them."""
    tiling, c = PiecesTiling(shape, choice), choice
    workers = c["split"] * c["slices"]
    return [
        *common.limit_rules(tiling, target.limits),
        (c["stages"] > tiling.k_tiles, "more stages than K tiles"),
        ((c["stages"] == 1) & (tiling.k_tiles > 1), "no stage to prefetch"),
        ((workers - 1) * tiling.k_tiles * tiling.chunk >= tiling.shape.ci, "an empty range"),
        (tiling.steps > 32, "too long when unrolled"),
        (tiling.spills, "addresses of copies that are spilled"),
    ]


def estimate(shape: Conv2d, choice: Mapping[str, int], target: Target) -> float:
    """Return a rough number of cycles; choices may be arrays of them.

    They are those of loads, products, reductions, and the launch.
    Its constants were fitted to 518 configurations of eleven layers timed on an H200: its order
    agrees with the measured one of each (rank correlations 0.67 to 0.97).
    """
    tiling, c = PiecesTiling(shape, choice), choice
    several = c["split"] > 1
    count, blocks = common.multiprocessors(target), math.prod(tiling.tiles)
    # A cluster stays within one GPC, which cannot always be filled with clusters.
    capacity = tiling.resident * (count - 4 * c["split"] * (c["split"] > 2))
    waves = common.ceil_div(blocks, capacity)
    blocks_here = common.smaller(tiling.resident, common.ceil_div(blocks, count))
    together = blocks_here * c["slices"]
    # The first K tiles are exposed: 51 bytes a cycle per multiprocessor, 6400 in all.
    bytes_read = 4 * (
        TILE_CO * tiling.chunk * tiling.shape.taps + 8 * tiling.cells * tiling.eights
    )
    at_once = common.smaller(blocks, capacity) * c["slices"]
    copies = bytes_read * common.larger(together / 51, at_once / 6400)
    # Splitting filters takes one warpgroup longer than the products of few rows.
    step = 24 * c["rows"]
    alone = tiling.k_tiles * (tiling.steps * common.larger(step, 370) + 1400) - 1400
    products = common.larger(alone, tiling.k_tiles * together * tiling.steps * step)
    windows = 310 * common.ceil_div(tiling.eights * tiling.cells, THREADS)
    reducing = 530.0 * (c["slices"] > 1) + (1230 + 50 * c["rows"] * blocks_here) * several
    writing = 200 + 35 * c["rows"] / c["slices"] * (c["split"] == 1)
    work = copies + common.larger(products, (tiling.k_tiles - 1) * copies) + windows
    cycles: float = 3800 + waves * (800 + work + reducing + writing)
    return cycles


def cycles(shape: Conv2d, choice: Mapping[str, int], target: Target) -> float:
    """Return the cycles of a choice, comparable to those of other families.

    Constants were fitted to 1176 configurations of 95 layers timed on an H100, with launches that
    overlap; errors have a root mean square of 22%, those of `estimate` 36%. That one orders the
    choices of a layer better: by this one 57 layers drawn anew took 3% longer.
    """
    tiling, c = PiecesTiling(shape, choice), choice
    several = c["split"] > 1
    count, blocks = common.multiprocessors(target), math.prod(tiling.tiles)
    # A cluster stays within one GPC, which cannot always be filled with clusters.
    capacity = tiling.resident * (count - (4 * c["split"] if c["split"] > 2 else 0))
    waves = common.ceil_div(blocks, capacity)
    blocks_here = min(tiling.resident, common.ceil_div(blocks, count))
    together = blocks_here * c["slices"]
    # The first K tiles are exposed: 39 bytes a cycle per multiprocessor, 3480 in all.
    bytes_read = 4 * (
        TILE_CO * tiling.chunk * tiling.shape.taps + 8 * tiling.cells * tiling.eights
    )
    at_once = min(blocks, capacity) * c["slices"]
    copies = bytes_read * max(together / 39, at_once / 3480)
    # Splitting filters takes one warpgroup longer than the products of few rows.
    steps, step = tiling.k_tiles * tiling.steps, 35 * c["rows"]
    products = max(steps * max(step, 290), 0.9 * together * steps * step)
    # Between K tiles each thread splits its cells.
    items = common.ceil_div(tiling.eights * tiling.cells, THREADS)
    between = 630 * items * (tiling.k_tiles - 1) + 390 * (c["slices"] - 1) * tiling.k_tiles
    reducing = (1060 + 114 * c["rows"] * blocks_here) * several
    stored = 1 + STRADDLED * tiling.straddles
    writing = 42 * c["rows"] / c["slices"] * (not several) * stored * blocks_here**0.5
    work = copies + max(products, (tiling.k_tiles - 1) * copies) + between
    elements = tiling.k_tiles * tiling.chunk * tiling.shape.taps
    work += SINGLE_COPIES * elements * (tiling.w_copy == 1)
    own = 1400 + waves * (1940 + work + reducing + writing)
    whole = tiling.whole
    moved = 4 * (whole.n * whole.ci * whole.h * whole.w + stored * whole.outputs)
    memory = moved * MULTIPROCESSORS / count / BYTES_A_CYCLE
    return float((own**3 + memory**3) ** (1 / 3))


def default_choice(shape: Conv2d, target: Target) -> dict[str, int]:
    """Return a good guess for a shape that was never tuned: the best by estimate."""
    return choices.best_of_all(
        candidates(shape),
        partial(_rules, shape=shape, target=target),
        partial(estimate, shape, target=target),
    )


def kernel(shape: Conv2d, choice: Mapping[str, int]) -> SourceKernel:
    """Return the kernel of a choice of knobs."""
    tiling, s = PiecesTiling(shape, choice), shape.one_group
    names = ["data", "weight", *s.epilogue.names("weight"), "out"]
    calls = [call("conv2d_bf16x3", names, tiling.tiles, tiling.threads, tiling.shared_bytes)]
    texts = [
        "epilogue.h", "mma.h", "barriers.h", "wgmma.h", "packed.h", "wgmma_registers.h",
        "bf16x3_split.h", "volume_planes.h", "conv2d_staged.h", "conv2d_bf16x3.cu",
    ]  # fmt: skip
    return common.cuda_kernel(shape, texts, tiling.defines(), calls, flags=[f"-arch={ARCH}"])
