"""Depthwise convolution and pooling for CUDA: each thread computes neighbouring windows.

Such layers are bound by latency and memory: MobileNet's take 1 to 5 microseconds, launch included.
There is no shared memory and no barrier: a thread issues all loads of the rows of its windows
before it uses the first, and the halo that threads share comes from the L1 cache.
"""

from __future__ import annotations

from collections.abc import Container, Mapping
from dataclasses import replace
from functools import partial

from autotune import SourceKernel, Target, call

from .. import choices, common
from ..epilogue import ACTIVATIONS, Epilogue
from ..rows.rows_shape import DTYPES
from .window_shape import INT32_MAX, KINDS, Depthwise, Pool

Shape = Depthwise | Pool
TEXTS = (
    "elements.h", "raw_elements.h", "epilogue.h", "exp2.h", "activations.h", "dependent_launch.h",
    "window.cu",
)  # fmt: skip
# Blocks up to which those of the next kernel may start while these store results: three for each
# multiprocessor of an H100 or H200. With more, multiprocessors that end first get too many of the
# next ones. On an H200, of 37 choices for six depthwise layers those with up to three blocks took
# 0.0 to 0.3 us less so (two took 0.1 us more), those with more up to 0.8 us more.
FEW_BLOCKS = 3 * 132
# Values of a thread from which on registers do not hold them, and cycles of a load that waits for
# the one before it: of 46 choices for 24x27 pixels of 55 channels in 16 bits by 7x7 filters with a
# dilation of 2 (NHWC), all 14 with as many, several pixels and parts of rows took 16 to 39 us on
# an H100, of the 32 others two 20 and the rest 3 to 10.
CROWDED, LOAD_BY_LOAD = 240, 100


def activated_last(epilogue: Epilogue, dtype: str) -> Mapping[str, int]:
    """Return the parameters of an epilogue whose activation is that of ``activations.h``."""
    begins = replace(epilogue, activation="none").defines()
    last = ACTIVATIONS.index(epilogue.activation)
    return {**begins, "last": last, "tf32": dtype == "float32", "bfloat16": dtype == "bfloat16"}


def chosen_as_groups(knobs: Container[str]) -> bool:
    """Return whether knobs were chosen when channels alone were groups: old logs stay valid."""
    return any(name in knobs for name in ("threads_m", "warps_m", "tile_h"))


class WindowTiling:
    """The sizes that follow from a shape and a choice of knobs."""

    shared_bytes = 0

    def __init__(self, shape: Shape, choice: Mapping[str, int]) -> None:
        c, (sy, sx), (ry, rx) = choice, shape.window.stride, shape.window.reach
        nhwc = shape.layout == "NHWC"
        self.shape, self.choice = shape, choice
        self.c_vec = c["vec"] if nhwc else 1
        self.x_vec = 1 if nhwc else c["vec"]
        self.threads = c["channels"] * c["columns"] * c["rows"]
        self.tile_c = c["channels"] * self.c_vec
        self.tile_x, self.tile_y = c["columns"] * c["pixels"], c["rows"] * c["lines"]
        self.in_lines = (c["lines"] - 1) * sy + ry
        across = (c["pixels"] - 1) * sx + rx
        self.held = self.in_lines * across * self.c_vec  # elements of all rows
        vectors = common.ceil_div(across + self.x_vec - 1, self.x_vec)
        self.read = vectors * self.x_vec * self.c_vec
        self.sums = c["lines"] * c["pixels"] * self.c_vec
        tiles = common.ceil_div(shape.ow, self.tile_x) * common.ceil_div(shape.oh, self.tile_y)
        self.grid = (shape.n * tiles, common.ceil_div(shape.co, self.tile_c), 1)
        self.blocks = self.grid[0] * self.grid[1]
        beside = (c["columns"], c["rows"])
        self.block = (c["channels"], *beside) if nhwc else (*beside, c["channels"])

    @property
    def ahead(self) -> bool:
        """Whether the blocks of the next kernel may start while these store results."""
        return self.blocks <= FEW_BLOCKS

    @property
    def shuffled(self) -> bool:
        """Whether threads get their halo columns from their neighbours by shuffles.

        The threads of a row hold all of it then, and a warp holds whole rows.
        """
        shape, c, window = self.shape, self.choice, self.shape.window
        own = c["pixels"] * window.stride[1]
        left = window.padding[1]
        right = (c["pixels"] - 1) * window.stride[1] + window.reach[1] - left - own
        covered = common.larger(shape.ow * window.stride[1], shape.w)
        whole_rows = (32 % c["columns"] == 0) & (c["columns"] * own >= covered)
        beside = (c["columns"] > 1) & (left <= own) & (right <= own)
        applies = shape.layout == "NCHW" and window.reach[1] > 1
        return applies & whole_rows & beside & (self.threads % 32 == 0)

    @property
    def reads(self) -> int:
        """Vectors that a thread loads of a row."""
        own = self.choice["pixels"] * self.shape.window.stride[1]
        every = self.read // (self.x_vec * self.c_vec)
        return common.pick(self.shuffled, own // self.x_vec, every)

    @property
    def weights(self) -> int:
        """Filter elements that a thread reads."""
        return self.shape.window.taps * self.c_vec if isinstance(self.shape, Depthwise) else 0

    @property
    def registers(self) -> int:
        """Estimate of the registers of a thread: filters, addresses, and the rows that it reads.

        All rows at once or, where these are too many, two of them and the sums.
        """
        few = self.sums + 2 * self.read
        rows = common.pick(self.weights + self.held > 200, 0, self.held)
        return self.weights + common.larger(few, rows) + 24

    @property
    def is_crowded(self) -> bool:
        """Whether values do not fit registers, so that each load waits for the one before it.

        The compiler loads whole rows of the image at once even then, if a tile has them.
        """
        parts = (self.choice["pixels"] > 1) & (self.tile_x < self.shape.ow)
        return parts & (self.weights + self.held > CROWDED)

    @property
    def unrolled(self) -> int:
        """Operations that are unrolled; windows of a column share what is pooled along rows."""
        ky, kx = self.shape.window.size
        if isinstance(self.shape, Depthwise):
            return self.sums * ky * kx
        across = self.in_lines * self.choice["pixels"] * self.c_vec * kx
        return across + self.sums * ky

    def defines(self) -> Mapping[str, int]:
        """Return everything the kernel text is parameterised by."""
        s, c, w = self.shape, self.choice, self.shape.window
        kind = s.kind if isinstance(s, Pool) else "depthwise"
        return common.defines(
            batch=s.n, ih=s.h, iw=s.w, oh=s.oh, ow=s.ow, ci=s.channels, multiplier=s.multiplier,
            kh=w.size[0], kw=w.size[1], sy=w.stride[0], sx=w.stride[1],
            py=w.padding[0], px=w.padding[1], dy=w.dilation[0], dx=w.dilation[1],
            element=list(DTYPES).index(s.dtype), nhwc=s.layout == "NHWC",
            operation=KINDS.index(kind), count_padding=isinstance(s, Pool) and s.count_padding,
            threads=self.threads, channels=c["channels"], columns=c["columns"], rows=c["rows"],
            pixels=c["pixels"], lines=c["lines"], c_vec=self.c_vec, x_vec=self.x_vec,
            shuffled=bool(self.shuffled), ahead=bool(self.ahead),
            o_vec=common.widest(s.ow, c["pixels"]), **activated_last(s.epilogue, s.dtype),
        )  # fmt: skip

    def kernel(self) -> SourceKernel:
        """Return the kernel of this tiling."""
        s = self.shape
        weight = "weight" if isinstance(s, Depthwise) else "data"
        names = ["data", weight, *s.epilogue.names("data"), "out"]
        calls = [call("windows", names, self.grid, self.block)]
        return common.cuda_kernel(s, TEXTS, self.defines(), calls)


def candidates(shape: Shape) -> dict[str, list[int]]:
    """Return the values each knob may take for a shape."""
    tiles = (1, 2, 4, 7, 8, 14, 16, 28, 32)
    nhwc = shape.layout == "NHWC"
    across = shape.co if nhwc else shape.w
    return {
        "pixels": common.up_to(shape.ow, (1, 2, 4, 7, 8)),
        "lines": common.up_to(shape.oh, (1, 2, 4, 7, 8)),
        "columns": common.up_to(shape.ow, tiles),
        "rows": common.up_to(shape.oh, tiles),
        "channels": common.up_to(shape.co, (1, 2, 4, 8, 16, 32, 64, *([128] if nhwc else []))),
        "vec": [v for v in (1, 2, 4, 8) if across % v == 0 and v <= 16 // shape.element_bytes],
    }


def violation(shape: Shape, choice: Mapping[str, int], target: Target) -> str | None:
    """Return why a choice cannot run or is sure to be slow, or None."""
    return common.first_broken(_rules(choice, shape, target))


def _rules(choice: Mapping[str, int], shape: Shape, target: Target) -> list[tuple[bool, str]]:
    """Return the rules of `violation`; choices may be arrays of them."""
    tiling, c = WindowTiling(shape, choice), choice
    nhwc = shape.layout == "NHWC"
    step = c["pixels"] * shape.window.stride[1]
    # Tiles of powers of two that do not reach beyond an image take an eighth of it at least.
    least = min(32, max(1, shape.outputs // shape.n // 8))
    return [
        *common.limit_rules(tiling, target.limits),
        (tiling.threads < least, "too few threads"),
        ((not nhwc) & (step % c["vec"] > 0), "windows that are not aligned to vectors"),
        (tiling.tile_x >= shape.ow + common.larger(c["pixels"], c["columns"]), "columns beyond"),
        (tiling.tile_y >= shape.oh + common.larger(c["lines"], c["rows"]), "rows beyond"),
        (tiling.tile_c >= 2 * shape.co, "channels beyond the output"),
        (tiling.grid[1] > target.limits.grid_dim[1], "too many blocks of channels"),
        (tiling.unrolled > 2048, "too long when unrolled"),
        (tiling.in_lines * shape.w * shape.channels > INT32_MAX, "rows beyond 32-bit offsets"),
    ]


def estimate(shape: Shape, choice: Mapping[str, int], target: Target) -> float:
    """Return a rough number of cycles: instruction fetch and issue, loads, and block launches.

    Its constants are a fit, without negative ones, to 1,364 configurations of 25 layers timed on
    an H200; those of blocks were changed when launches overlapped. Of some 16 configurations of
    each of 11 depthwise layers, and 9 of each of 12, the one with the least estimate then took
    1.03 times as long as the fastest (geometric mean); the rank correlation is 0.82.
    """
    tiling = WindowTiling(shape, choice)
    blocks = common.ceil_div(tiling.blocks, common.multiprocessors(target))
    warps = common.ceil_div(tiling.threads, 32)
    waves = common.ceil_div(blocks, _resident(tiling.registers, warps, target))
    reads = tiling.in_lines * tiling.reads
    each = 3 if isinstance(shape, Pool) and shape.kind == "max" else 1
    unpacked = tiling.read * tiling.in_lines + tiling.weights if shape.element_bytes == 2 else 0
    # Code is fully unrolled: instructions are fetched once, and every warp waits for them.
    code = each * tiling.unrolled + 3 * reads + tiling.weights + unpacked + tiling.sums + 40
    waiting = 51 * (waves - 1) + 16 * tiling.in_lines + 70 * blocks + 11 * warps
    waiting += 130 * (1 - tiling.ahead)
    waiting += LOAD_BY_LOAD * reads * tiling.is_crowded
    return waiting + 1.47 * code + blocks * warps * (0.13 * code + 0.7 * reads * _lines(tiling))


def _resident(registers: int, warps: int, target: Target) -> int:
    """Return how many blocks of so many warps a multiprocessor runs at a time."""
    limits, smaller = target.limits, common.smaller
    fit = smaller(limits.registers // (32 * registers * warps), 2048 // (32 * warps))
    reserved = limits.shared_bytes_optin // 1024
    return common.larger(smaller(fit, reserved), 1)


def _lines(tiling: WindowTiling) -> float:
    """Return how many 128-byte cache lines a load of a warp touches."""
    c, shape, larger, smaller = tiling.choice, tiling.shape, common.larger, common.smaller
    lanes = smaller(32, tiling.threads)
    if shape.layout == "NHWC":
        beside = smaller(c["channels"], lanes)
        return lanes / beside * larger(1, beside * tiling.c_vec * shape.element_bytes / 128)
    beside = smaller(c["columns"], lanes)
    apart = c["pixels"] * shape.window.stride[1]
    span = ((beside - 1) * apart + tiling.x_vec) * shape.element_bytes
    return lanes / beside * larger(1, smaller(beside, span / 128))


def default_choice(shape: Shape, target: Target) -> dict[str, int]:
    """Return a good guess for a shape that was never tuned: the best by estimate."""
    return choices.best_of_all(
        candidates(shape),
        partial(_rules, shape=shape, target=target),
        partial(estimate, shape, target=target),
    )


def kernel(shape: Shape, choice: Mapping[str, int]) -> SourceKernel:
    """Return the kernel of a choice of knobs."""
    return WindowTiling(shape, choice).kernel()
