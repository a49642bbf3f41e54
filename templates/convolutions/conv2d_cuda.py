"""Direct convolution for CUDA: staged tiles, register tiles, and splits of the input channels.

A block stages an input tile with its halo, and filters, of some channels in shared memory, and a
thread keeps an input row in registers for all taps of a filter row: register blocking as for
products (Volkov and Demmel, 2008), without im2col. Layers of one image have too few pixels to fill
a device, so the input channels are split among slices of a block, and among blocks.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from functools import lru_cache, partial

from autotune import SourceKernel, Target, call

from .. import common
from .conv2d_shape import Conv2d

# Multiply-adds that are unrolled at a time. Longer code took twice as long to compile and was no
# faster: of 300 trials of 512 filters on 7x7 the best was 12.2 and 12.5 us without a limit, 12.1
# and 12.1 with this one, and 12.3 with half of it (one H200, two seeds).
STRAIGHT = 512
# The value of the knob ``taps`` with which a thread loads whole filter rows, padded to 16 bytes in
# shared memory; and the shortest rows that may be loaded so.
WHOLE_ROWS, LONG_ROW = 8, 5
# Most columns of an input row that a thread keeps in registers.
WIDEST = 220
# What makes the estimate comparable to those of other families.
FIXED_CYCLES, SHARE = 2550, 1.56
# Cycles of a multiprocessor for a sector that is stored, its floats, and cycles for a float moved.
STORED_SECTOR, SECTOR, MOVED = 0.33, 8, 0.226
# Bytes of results from which on they are written to memory, not to the L2 cache; that memory
# moves at once; and in a cycle.
BEYOND_CACHE, BURST, MEMORY_BYTES = 40 * 2**20, 64, 1700


class ConvTiling:
    """The sizes that follow from a shape and a choice of knobs; the kernel text needs the same."""

    def __init__(self, shape: Conv2d, choice: Mapping[str, int]) -> None:
        c = choice
        # Each group of each image is an image of its own.
        self.whole, self.shape, self.choice = shape, shape.one_group.flat, choice
        shape = self.shape
        (sy, sx), taps, (reach_y, reach_x) = shape.stride, shape.taps, shape.window.reach
        self.threads = c["columns"] * c["rows"] * c["groups"] * c["slices"]
        self.per_split = common.ceil_div(shape.ci, c["split"])
        self.chunk = c["slices"] * c["step"]
        self.k_tiles = common.ceil_div(self.per_split, self.chunk)
        self.tile_co = c["groups"] * c["channels"]
        self.tile_x = c["columns"] * c["pixels"]
        self.x_step = 1 if shape.kw == 1 else sx
        y_step = 1 if shape.kh == 1 else sy
        self.in_pitch = common.odd_quads((self.tile_x - 1) * self.x_step + reach_x)
        in_h = (c["rows"] - 1) * y_step + reach_y
        self.window_cells = in_h * ((self.tile_x - 1) * self.x_step + reach_x)
        padded = self.chunk * shape.kh * common.ceil_div(shape.kw, 4) * 4
        self.whole_rows = c["taps"] == WHOLE_ROWS
        self.w_pitch = common.odd_quads(common.pick(self.whole_rows, padded, self.chunk * taps))
        staged = c["stages"] * (self.chunk * in_h * self.in_pitch + self.tile_co * self.w_pitch)
        summed = c["slices"] * self.tile_co * c["rows"] * self.tile_x
        self.shared_bytes = 4 * common.larger(staged, summed)
        self.window = (c["pixels"] - 1) * self.x_step + reach_x
        self.tiles = (
            shape.n
            * common.ceil_div(shape.oh, c["rows"])
            * common.ceil_div(shape.ow, self.tile_x),
            common.ceil_div(shape.co, self.tile_co),
            c["split"],
        )

    @property
    def registers(self) -> int:
        """Estimate of the registers of a thread: sums, an input row, the taps, and addresses."""
        c = self.choice
        taps = c["channels"] * common.larger(c["taps"], 1)
        return c["channels"] * c["pixels"] + self.window + taps + 18

    @property
    def unrolled(self) -> int:
        """Multiply-adds of all channels of a step, or of a row where taps are not unrolled."""
        c = self.choice
        lines = common.pick(c["taps"] > 0, c["step"] * self.shape.taps, self.shape.kw)
        lines = common.pick(self.whole_rows, self.shape.taps, lines)
        return lines * c["channels"] * c["pixels"]

    @property
    def straight(self) -> int:
        """Input channels whose taps are unrolled together: a whole number of loads."""
        c, taps = self.choice, self.shape.taps
        vec = max(c["taps"], 1)
        return common.straight(
            c["step"], vec // math.gcd(vec, taps), taps * c["channels"] * c["pixels"], STRAIGHT
        )

    def defines(self) -> Mapping[str, int]:
        """Return everything the kernel text is parameterised by."""
        s, c = self.shape, self.choice
        taps = s.taps
        across = c["pixels"] * self.x_step if c["columns"] > 1 else 4
        # Input rows of pointwise layers are aligned to vectors.
        alone = s.kw == 1 and s.stride[1] == 1 and not any(s.window.padding)
        return common.defines(
            batch=s.n, co=s.co, ci=s.ci, ih=s.h, iw=s.w, oh=s.oh, ow=s.ow, kh=s.kh, kw=s.kw,
            sy=s.stride[0], sx=s.stride[1], py=s.padding[0], px=s.padding[1],
            dy=s.dilation[0], dx=s.dilation[1], conv_groups=self.whole.groups,
            channel_vec=common.widest(s.oh * s.ow), **s.epilogue.defines(), **s.planes.defines(),
            threads=self.threads, ci_per_split=self.per_split,
            channels=c["channels"], groups=c["groups"], pixels=c["pixels"], columns=c["columns"],
            rows=c["rows"], slices=c["slices"], split=c["split"], step=c["step"],
            stages=c["stages"], unroll=0 < c["taps"] < WHOLE_ROWS, vec=max(c["taps"], 1),
            lines=self.whole_rows, straight=self.straight,
            cluster=c["cluster"] and c["split"] > 1, in_pitch=self.in_pitch, w_pitch=self.w_pitch,
            w_copy=1 if self.whole_rows
            else common.widest(s.ci * taps, self.per_split * taps, self.chunk * taps),
            x_copy=common.widest(self.tile_x, s.w) if alone else 1,
            x_vec=common.widest(across), r_vec=common.widest(s.outputs),
            o_vec=common.widest(self.tile_x, s.ow),
        )  # fmt: skip

    def kernel(self) -> SourceKernel:
        """Return the kernel of this tiling."""
        s, c = self.shape, self.choice
        names = ["data", "weight", *s.epilogue.names("weight"), "out"]
        two = c["split"] > 1 and not c["cluster"]
        out_size = s.outputs
        main = [*names[:-1], "partial" if two else "out"]
        calls = [call("conv2d_nchw", main, self.tiles, self.threads, self.shared_bytes)]
        if two:
            blocks = common.ceil_div(out_size, 128 * common.widest(out_size))
            calls.append(call("conv2d_nchw_reduce", ["partial", *names[2:]], blocks, 128))
        parts = (c["split"], out_size) if two else None
        knobs = {**self.defines(), **s.epilogue.texts()}
        return common.cuda_kernel(
            self.whole, ["epilogue.h", "volume_planes.h", "conv2d_nchw.cu"], knobs, calls, parts
        )


def candidates(shape: Conv2d) -> dict[str, list[int]]:
    """Return the values each knob may take for a shape."""
    shape = shape.one_group.flat
    tiles = (1, 2, 4, 7, 8, 14, 16, 28, 32)
    return {
        "channels": common.up_to(shape.co, (1, 2, 4, 8, 16)),
        "groups": common.up_to(shape.co, (1, 2, 4, 8, 16, 32)),
        "pixels": common.up_to(shape.ow, (1, 2, 4, 7, 8, 14)),
        "columns": common.up_to(shape.ow, tiles),
        "rows": common.up_to(shape.oh, tiles),
        "slices": common.up_to(shape.ci, (1, 2, 4, 8, 16, 32)),
        "split": common.up_to(shape.ci, (1, 2, 4, 8, 16, 32)),
        "step": common.up_to(shape.ci, (1, 2, 3, 4, 8, 16)),
        "stages": [1, 2, 3, 4],
        "taps": [0, 1, 2, 4, *([WHOLE_ROWS] if shape.kw >= LONG_ROW else [])],
        "cluster": [0, 1],
    }


def is_too_wide(shape: Conv2d) -> bool:
    """Return whether dilation makes an input row too wide for the registers of a thread."""
    return shape.window.reach[1] > WIDEST


def violation(shape: Conv2d, choice: Mapping[str, int], target: Target) -> str | None:
    """Return why a choice cannot run or is sure to be slow, or None."""
    return common.first_broken(_rules(choice, shape, target))


def _rules(choice: Mapping[str, int], shape: Conv2d, target: Target) -> list[tuple[bool, str]]:
    """Return the rules of `violation`; choices may be arrays of them."""
    tiling, c = ConvTiling(shape, choice), choice
    shape = tiling.shape
    least, over = min(64, shape.outputs), common.larger(c["pixels"], c["columns"])
    apart = common.pick(tiling.whole_rows, 0, c["step"] * shape.taps % common.larger(c["taps"], 1))
    return [
        *common.limit_rules(tiling, target.limits),
        ((tiling.threads < least) & (c["slices"] * 2 <= shape.ci), "too few threads"),
        (c["split"] * shape.outputs >= 2**31, "partial sums beyond 32-bit indices"),
        (tiling.tile_co >= 2 * shape.co, "channels beyond the output"),
        (tiling.tile_x >= shape.ow + over, "columns beyond the output"),
        (tiling.chunk >= 2 * tiling.per_split, "slices beyond the input channels"),
        (c["stages"] > tiling.k_tiles + 1, "more stages than K tiles"),
        (apart > 0, "vectors of taps do not divide"),
        (tiling.unrolled > 4096, "too long when unrolled"),
        *common.cluster_rules(c, target),
    ]


def estimate(shape: Conv2d, choice: Mapping[str, int], target: Target) -> float:
    """Return a rough number of cycles: arithmetic, staging, reductions, and launches.

    Its constants were fitted to 420 configurations of one layer timed on an H200, and looked at
    again with 586 of six layers: its order agrees with the measured one of each (rank
    correlations 0.80 to 0.97).
    """
    tiling, c = ConvTiling(shape, choice), choice
    shape = tiling.shape
    occupied = common.occupancy(
        target, math.prod(tiling.tiles), tiling.threads, tiling.registers, tiling.shared_bytes
    )
    busy_warps = occupied.together * common.ceil_div(tiling.threads, 32)
    lines = tiling.k_tiles * c["step"] * shape.taps
    in_vectors = shape.kw / common.ceil_div(shape.kw, 4)
    at_once = in_vectors if tiling.whole_rows else max(c["taps"], 1)
    reads = tiling.window / min(4, c["pixels"]) / shape.kw + c["channels"] / at_once
    # An element read from shared memory occupies the multiprocessor for a cycle a warp, whether
    # its threads share it or not; the four schedulers share that, but not their arithmetic.
    shared = 3 * (tiling.window / shape.kw + c["channels"])
    # Loads of a loop that is not unrolled expose latency.
    waits = 1.5 if c["taps"] == 0 else 1.0
    work = waits * lines * max(c["channels"] * c["pixels"] + reads, shared) + 130 * tiling.k_tiles
    # Vector loads of filter rows leave a warp more independent work.
    compute = occupied.waves * work * max(busy_warps / 4, 1.6 if tiling.whole_rows else 2.4)
    elements = tiling.tile_co * shape.taps + tiling.window_cells
    copies = tiling.tile_co * shape.taps / 4 + tiling.window_cells
    staging = (
        occupied.waves
        * occupied.together
        * tiling.k_tiles
        * tiling.chunk
        * (elements / 10 + copies / 6)
    )
    overlapped = c["stages"] > 1 and tiling.k_tiles > 1
    reducing = (
        occupied.waves * occupied.together * tiling.threads * c["channels"] * c["pixels"] * 8 / 128
    )
    share = 0.9 if overlapped or occupied.together > 1 else 0.05
    both = common.overlapped_cycles(compute, staging, share)
    reducing = reducing + common.reduction_cycles(c, shape.outputs, occupied)
    return both + reducing + _storing(tiling) / occupied.multiprocessors + _moved_again(tiling)


def _moved_again(tiling: ConvTiling) -> float:
    """Return the cycles in which memory moves parts of 64 bytes that two tiles write.

    The cache holds them for both tiles of smaller results. 293 filters of 3x1 on 8x85x85 took an
    H100 178 us in tiles of 4 columns, and 107 in those of 28.
    """
    whole, c = tiling.whole, tiling.choice
    if 4 * whole.outputs < BEYOND_CACHE or tiling.shape.ow % (BURST // 4) == 0:
        return 0.0
    across = tiling.tile_x >= tiling.shape.ow
    run = common.pick(across, c["rows"] * tiling.shape.ow, tiling.tile_x)
    again: float = whole.outputs * BURST / run / MEMORY_BYTES
    return again


def _storing(tiling: ConvTiling) -> float:
    """Return the cycles of one multiprocessor that would store all results.

    Neighbouring threads are as far apart as a thread has pixels; where rows do not allow vectors
    each of their stores writes a sector of 32 bytes.
    """
    pixels = tiling.choice["pixels"]
    vector = common.widest(tiling.tile_x, tiling.shape.ow)
    sectors = common.smaller(pixels, SECTOR) / (SECTOR * vector)
    stored: float = STORED_SECTOR * tiling.whole.outputs * sectors
    return stored


@lru_cache(maxsize=1024)
def untuned_cycles(shape: Conv2d, target: Target) -> float:
    """Return the cycles of the untuned choice, comparable to those of the other families.

    The estimate orders choices of a shape; so it fits 83 layers on an H100, with an error of 14%.
    """
    choice = default_choice(shape, target)
    if is_too_wide(shape) or violation(shape, choice, target):
        return math.inf
    moved = shape.outputs + shape.n * shape.ci * shape.h * shape.w
    memory = MOVED * moved / common.multiprocessors(target)
    own = FIXED_CYCLES + SHARE * estimate(shape, choice, target)
    return float((own**3 + memory**3) ** (1 / 3))


def default_choice(shape: Conv2d, target: Target) -> dict[str, int]:
    """Return a good guess for a shape that was never tuned: the best of a fixed sample."""
    return dict(_best_drawn(shape, target))


@lru_cache(maxsize=1024)
def _best_drawn(shape: Conv2d, target: Target) -> Mapping[str, int]:
    return common.best_drawn_at_once(
        candidates(shape),
        20000,
        partial(_rules, shape=shape, target=target),
        partial(estimate, shape, target=target),
    )


def kernel(shape: Conv2d, choice: Mapping[str, int]) -> SourceKernel:
    """Return the kernel of a choice of knobs."""
    return ConvTiling(shape, choice).kernel()
