"""Depthwise convolution and pooling for CUDA: each thread computes neighbouring windows.

Such layers are bound by latency and memory: MobileNet's take 1 to 5 microseconds, launch included.
There is no shared memory and no barrier: a thread issues all loads of the rows of its windows
before it uses the first, and the halo that threads share comes from the L1 cache.
"""

from __future__ import annotations

import math
from collections.abc import Container, Mapping
from dataclasses import replace
from functools import partial

from autotune import SourceKernel, Target, call
from autotune.errors import TemplateError

from .. import choices, common
from ..epilogue import Epilogue
from .window_shape import INT32_MAX, KINDS, TYPES, Depthwise, Pool

Shape = Depthwise | Pool
TEXTS = (
    "elements.h", "raw_elements.h", "epilogue.h", "exp2.h", "activations.h", "dependent_launch.h",
    "window.cu",
)  # fmt: skip
# Those of 8-bit integers.
INTEGER_TEXTS = ("int8_elements.h", *TEXTS[2:])
# Blocks up to which those of the next kernel may start while these store results: three for each
# multiprocessor of an H100 or H200. With more, multiprocessors that end first get too many of the
# next ones. On an H200, of 37 choices for six depthwise layers those with up to three blocks took
# 0.0 to 0.3 us less so (two took 0.1 us more), those with more up to 0.8 us more.
FEW_BLOCKS = 3 * 132
# Bytes of a layer from which on they come from memory, not from the L2 cache; that memory moves
# at once; and in a nanosecond.
BEYOND_CACHE, BURST, MEMORY_BYTES = 40 * 2**20, 64, 3000
# Registers of a multiprocessor, and those that a thread can use.
REGISTERS, MOST_REGISTERS = 65536, 248
# Threads along the channels of NCHW images, at most, and channels that a grid of them has down.
MOST_OF_BLOCK = 64
MOST_CHANNELS = MOST_OF_BLOCK * 65535


def activated_last(epilogue: Epilogue, dtype: str) -> Mapping[str, int]:
    """Return the parameters of an epilogue whose activation is that of ``activations.h``."""
    begins = replace(epilogue, activation="none").defines()
    last = epilogue.number
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
        self.in_lines = (c["lines"] - 1) * sy + ry  # rows that a thread's windows span
        across = (c["pixels"] - 1) * sx + rx
        # Those that windows have taps in: strides and dilations may leave some out.
        (ky, kx), (dy, dx) = shape.window.size, shape.window.dilation
        self.lines_read = common.smaller(
            ky * c["lines"], (self.in_lines - 1) // math.gcd(sy, dy) + 1
        )
        columns = common.smaller(kx * c["pixels"], (across - 1) // math.gcd(sx, dx) + 1)
        self.held = self.lines_read * columns * self.c_vec  # elements of all rows
        vectors = common.ceil_div(across + self.x_vec - 1, self.x_vec)
        self.read = vectors * self.x_vec * self.c_vec
        self.row_reads = common.smaller(vectors, columns)
        self.sums = c["lines"] * c["pixels"] * self.c_vec
        self.o_vec = common.widest(shape.ow, c["pixels"])
        tiles = common.ceil_div(shape.ow, self.tile_x) * common.ceil_div(shape.oh, self.tile_y)
        across_channels = common.ceil_div(shape.co, self.tile_c)
        self.blocks = shape.n * tiles * across_channels
        self.grid = (self.blocks, 1, 1) if nhwc else (shape.n * tiles, across_channels, 1)
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
        """Vectors that a thread loads."""
        own = self.choice["pixels"] * self.shape.window.stride[1]
        each = common.pick(self.shuffled, own // self.x_vec, self.row_reads)
        return self.lines_read * each

    @property
    def block_bytes(self) -> float:
        """Bytes of the image that a block reads, its halo included, in sectors of 32 bytes."""
        shape, (sy, sx), (ry, rx) = self.shape, self.shape.window.stride, self.shape.window.reach
        rows = common.smaller((self.tile_y - 1) * sy + ry, shape.h)
        columns = common.smaller((self.tile_x - 1) * sx + rx, shape.w)
        channels = common.smaller(self.tile_c, shape.co) / shape.multiplier
        if shape.layout == "NHWC":
            return rows * columns * common.larger(channels * shape.element_bytes, 32)
        return rows * channels * common.larger(columns * shape.element_bytes, 32)

    @property
    def weights(self) -> int:
        """Filter elements that a thread reads."""
        return self.shape.window.taps * self.c_vec if isinstance(self.shape, Depthwise) else 0

    @property
    def wanted_registers(self) -> int:
        """Registers with which a thread would load all rows at once: a fit, without bounds.

        Of 16-bit floats a register holds two neighbours, of 8-bit integers four. Not all of what
        is loaded is needed at the same time.
        """
        packed = common.smaller(4 // self.shape.element_bytes, self.choice["vec"])
        return (
            self.weights + (6 * (self.held // packed + self.sums) + 5 * self.lines_read) // 10 + 16
        )

    @property
    def registers(self) -> int:
        """Estimate of the registers of a thread.

        If a block cannot have those of all rows, then those of two rows and the sums at least.
        """
        least = self.weights + self.sums + 2 * self.read + 24
        most = common.smaller(MOST_REGISTERS, REGISTERS // self.threads)
        return common.larger(
            common.smaller(self.wanted_registers, most),
            common.smaller(least, self.wanted_registers),
        )

    @property
    def stores(self) -> int:
        """Vectors of results that a thread stores, and of the residual that it loads."""
        wide = self.c_vec * common.larger(1, self.o_vec * (self.shape.layout == "NCHW"))
        return self.sums // wide * (1 + self.shape.epilogue.residual)

    @property
    def unrolled(self) -> int:
        """Operations that are unrolled; windows of a column share what is pooled along rows."""
        ky, kx = self.shape.window.size
        if isinstance(self.shape, Depthwise):
            return self.sums * ky * kx
        across = self.lines_read * self.choice["pixels"] * self.c_vec * kx
        return across + self.sums * ky

    def defines(self) -> Mapping[str, int]:
        """Return everything the kernel text is parameterised by."""
        s, c, w = self.shape, self.choice, self.shape.window
        kind = s.kind if isinstance(s, Pool) else "depthwise"
        return common.defines(
            batch=s.n, ih=s.h, iw=s.w, oh=s.oh, ow=s.ow, ci=s.channels, multiplier=s.multiplier,
            kh=w.size[0], kw=w.size[1], sy=w.stride[0], sx=w.stride[1],
            py=w.padding[0], px=w.padding[1], dy=w.dilation[0], dx=w.dilation[1],
            element=list(TYPES).index(s.dtype), nhwc=s.layout == "NHWC",
            operation=KINDS.index(kind), count_padding=isinstance(s, Pool) and s.count_padding,
            threads=self.threads, channels=c["channels"], columns=c["columns"], rows=c["rows"],
            pixels=c["pixels"], lines=c["lines"], c_vec=self.c_vec, x_vec=self.x_vec,
            shuffled=bool(self.shuffled), ahead=bool(self.ahead),
            o_vec=self.o_vec, **activated_last(s.epilogue, s.dtype),
        )  # fmt: skip

    def kernel(self) -> SourceKernel:
        """Return the kernel of this tiling."""
        s = self.shape
        weight = "weight" if isinstance(s, Depthwise) else "data"
        names = ["data", weight, *s.epilogue.names("data"), "out"]
        calls = [call("windows", names, self.grid, self.block)]
        texts = INTEGER_TEXTS if s.element_bytes == 1 else TEXTS
        knobs = {**self.defines(), **s.epilogue.texts(s.dtype)}
        return common.cuda_kernel(s, texts, knobs, calls)


def candidates(shape: Shape) -> dict[str, list[int]]:
    """Return the values each knob may take for a shape.

    Raises:
        TemplateError: images have more channels than kernels take.
    """
    tiles = (1, 2, 4, 7, 8, 14, 16, 28, 32)
    nhwc = shape.layout == "NHWC"
    if not nhwc and shape.co > MOST_CHANNELS:
        raise TemplateError(
            f"{shape.owner}: kernels index up to {MOST_CHANNELS} channels of NCHW images, "
            f"got {shape.co}; NHWC images may have more"
        )
    across = shape.co if nhwc else shape.w
    return {
        "pixels": common.up_to(shape.ow, (1, 2, 4, 7, 8)),
        "lines": common.up_to(shape.oh, (1, 2, 4, 7, 8)),
        "columns": common.up_to(shape.ow, tiles),
        "rows": common.up_to(shape.oh, tiles),
        "channels": common.up_to(
            shape.co, (1, 2, 4, 8, 16, 32, MOST_OF_BLOCK, *([128] if nhwc else []))
        ),
        "vec": [v for v in (1, 2, 4, 8, 16) if across % v == 0 and v <= 16 // shape.element_bytes],
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
    """Return a rough time in nanoseconds.

    The warps that a multiprocessor has at a time take as long as one of them alone, by the latency
    of its instructions and loads, or as all of them together, by their instructions, loads and the
    bytes that blocks get from the L2 cache. The constants are a fit to 3,100 configurations of 266
    layers timed on an H100 and an H200, some 12 a layer; of these the one with the least estimate
    took 1.07 times as long as the fastest (geometric mean, also of layers left out of the fit).
    8-bit integers, which were not among these, count as 16-bit floats do.
    """
    tiling, smaller = WindowTiling(shape, choice), common.smaller
    warps, code = common.ceil_div(tiling.threads, 32), _instructions(tiling)
    blocks = common.ceil_div(tiling.blocks, common.multiprocessors(target))
    resident = smaller(_resident(tiling.registers, warps, target), blocks)
    moved = tiling.reads + 2.7 * tiling.stores
    alone = 1.64 * (code + 1.4 * tiling.reads)
    each = warps * (0.068 * code + 0.56 * _lines(tiling) * moved) + 0.0102 * tiling.block_bytes
    wave: float = (alone**2 + (resident * each) ** 2) ** 0.5
    own = blocks / resident * wave + 29 * blocks + 86 * smaller(blocks, 3) + 2.6 * warps
    memory = _memory(tiling)
    together: float = own if memory is None else (own**3 + memory**3) ** (1 / 3)
    return together


def _memory(tiling: WindowTiling) -> float | None:
    """Return the nanoseconds that arrays take to move which do not fit the cache; None if they do.

    Memory moves 64 bytes at a time. What a block reads and writes of them at either end of a row
    of its tile moves for the block beside it again: 8x125x125 pixels of 171 channels took 94 us
    with 32 channels a block and 66 with 128, on an H100.
    """
    shape = tiling.shape
    if shape.bytes < BEYOND_CACHE:
        return None
    nhwc = shape.layout == "NHWC"
    run = common.smaller(tiling.tile_c, shape.co) if nhwc else tiling.tile_x
    moved: float = shape.bytes * (1 + BURST / (run * shape.element_bytes))
    return moved / MEMORY_BYTES


def _instructions(tiling: WindowTiling) -> float:
    """Return about how many instructions a thread executes; all loops are unrolled."""
    shape, halves = tiling.shape, tiling.shape.element_bytes < 4
    kind = shape.kind if isinstance(shape, Pool) else "depthwise"
    exact = shape.epilogue.has_powers and not halves
    average = kind == "avg"
    each = 4 * halves + 35 * exact + 12 * average + 4 * shape.epilogue.residual
    pixels = tiling.choice["lines"] * tiling.choice["pixels"]
    return (
        (1.37 if kind == "max" else 1.16) * tiling.unrolled + 1.1 * tiling.reads
        + (0.6 + 2.9 * halves) * tiling.weights + each * tiling.sums + 14 * average * pixels + 70
    )  # fmt: skip


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
