"""Convolutions as tensor expressions: direct NCHW and depthwise, for CUDA and the CPU."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import partial

from autotune import get_config, te, topi
from autotune.task import TemplateConfig

from . import te_common
from .arguments import template
from .te_common import Scheduled
from .te_limits import (
    Block,
    Point,
    block_part,
    keep_possible,
    shared_part,
    staged_bytes,
    thread_part,
)

Extents = int | Sequence[int]
Tensors = tuple[te.Tensor, te.Tensor, te.Tensor]

# Knobs of a GPU: tiles of the output, and slices of the reduction.
CUDA_TILES = ("tile_f", "tile_y", "tile_x")
CUDA_SLICES = ("tile_rc", "tile_ry", "tile_rx")
# Where the choice of untuned kernels starts: virtual threads, threads and a thread's own part of
# channels, rows and columns; channels of a slice, threads that share a sum, and how far loops are
# unrolled.
CUDA_STARTS = (
    ((1, 8, 4), (1, 4, 1), (1, 8, 1), 8, 1, 512),
    ((2, 8, 2), (1, 2, 1), (1, 14, 1), 8, 1, 512),
    ((1, 16, 4), (1, 1, 2), (1, 8, 2), 4, 1, 512),
    ((1, 8, 2), (1, 4, 1), (1, 8, 1), 16, 4, 512),
    ((1, 4, 4), (1, 7, 1), (1, 7, 1), 16, 4, 512),
    ((2, 2, 4), (1, 28, 1), (1, 1, 4), 64, 4, 1500),
    ((8, 2, 1), (1, 4, 1), (2, 1, 2), 64, 8, 1500),
    ((1, 8, 1), (2, 2, 1), (1, 4, 1), 36, 1, 1500),
)
CUDA_DEPTHWISE_STARTS = (
    ((1, 1, 1), (1, 8, 1), (1, 32, 1), 1, 1, 512),
    ((1, 1, 1), (1, 4, 4), (1, 32, 1), 1, 1, 512),
    ((1, 4, 1), (1, 7, 1), (1, 7, 1), 1, 1, 512),
    ((1, 2, 1), (1, 14, 1), (1, 14, 1), 1, 1, 512),
)


def _conv2d(
    n: int, h: int, w: int, co: int, ci: int, kh: int, kw: int, stride: Extents, padding: Extents
) -> Tensors:
    data = te.placeholder((n, ci, h, w), name="data")
    kernel = te.placeholder((co, ci, kh, kw), name="kernel")
    return data, kernel, topi.nn.conv2d_nchw(data, kernel, stride, padding)


def _depthwise(
    n: int, h: int, w: int, c: int, multiplier: int, kh: int, kw: int,
    stride: Extents, padding: Extents,
) -> Tensors:  # fmt: skip
    data = te.placeholder((n, c, h, w), name="data")
    kernel = te.placeholder((c, multiplier, kh, kw), name="kernel")
    return data, kernel, topi.nn.depthwise_conv2d_nchw(data, kernel, stride, padding)


def _define_tiles(
    cfg: TemplateConfig, conv: te.Tensor, reduced: Sequence[str], tails: bool
) -> int:
    """Declare tiles of the output, slices of the reduction, and where a choice starts.

    Returns:
        How many threads share a sum.
    """
    shared = tails and bool(reduced)
    sharing = te_common.define_sharing(cfg, "tile_rc") if shared else 1
    policy = "verbose" if tails else "factors"
    for name, axis in zip(CUDA_TILES, conv.op.axis[1:], strict=True):
        cfg.define_split(name, axis, policy, num_outputs=4)
    sums = te_common.sum_of(conv).op.reduce_axis
    for name, axis in zip(reduced, sums, strict=False):
        cfg.define_split(name, axis, num_outputs=2)
    te_common.define_unroll(cfg)
    for f, y, x, channels, threads, steps in CUDA_STARTS if reduced else CUDA_DEPTHWISE_STARTS:
        values: dict[str, object] = dict(zip(CUDA_TILES, (f, y, x), strict=True))
        if reduced:
            filters = [te_common.extent_of(axis) for axis in sums[1:]]
            values |= zip(reduced, ([channels], *([n] for n in filters)), strict=True)
        if shared:
            values["sharing"] = threads
        te_common.suggest(cfg, values | {"auto_unroll_max_step": steps, "unroll_explicit": 1})
    if tails:
        keep_possible(cfg, partial(_block_of, conv, reduced))
    return sharing


def _block_of(conv: te.Tensor, reduced: Sequence[str], c: Point) -> Block:
    """Return what a block of `on_gpu` takes."""
    f, y, x = (c[name].size[2] for name in CUDA_TILES)
    sharing = c["sharing"].val if reduced else 1
    total = te_common.sum_of(conv)
    whole = [te_common.extent_of(axis) for axis in total.op.reduce_axis]
    slices = [c[name].size[1] for name in reduced] or whole
    if reduced:
        slices[0] = shared_part(c, reduced[0])
    tiles = [block_part(c, name) for name in CUDA_TILES]
    axes = [*total.op.axis[1:], *total.op.reduce_axis]
    sizes = {axis.var: n for axis, n in zip(axes, [*tiles, *slices], strict=True)}
    return Block(
        sharing * f * y * x,
        deep=f * (sharing <= 1) + x * (sharing > 1),
        sums=math.prod(thread_part(c, name) for name in CUDA_TILES),
        shared_bytes=staged_bytes(total, sizes),
    )


def on_gpu(
    data: te.Tensor,
    kernel: te.Tensor,
    conv: te.Tensor,
    reduced: Sequence[str],
    tails: bool = False,
) -> Scheduled:
    """Tile the output in blocks, virtual threads and threads.

    Args:
        data: the images.
        kernel: the filters.
        conv: the convolution.
        reduced: how each axis of the reduction is split: a slice at a time passes through shared
            memory; without any a block stages all that it reads at once.
        tails: whether tiles need not divide the output, and threads may share sums; the knobs of
            TVM's templates offer neither.
    """
    s = te.create_schedule([conv.op])
    cfg = get_config()
    padded = te_common.sum_of(conv).op.input_tensors[0]
    sharing = _define_tiles(cfg, conv, reduced, tails)

    local = te_common.summed_in_registers(s, conv)
    s[padded].compute_inline()
    total, tags = local, "zyx" if sharing == 1 else "yz"
    if reduced:
        # What threads of a warp add up they exchange without shared memory.
        share = te_common.share_sum(cfg, s, local, reduced, sharing, "threadIdx.x", True)
        total, outer, inner = share
    shared = [s.cache_read(t, "shared", [total]) for t in (padded, kernel)]
    threads = te_common.on_threads(cfg, s, conv, list(CUDA_TILES), threads_of=tags)
    s[local].compute_at(s[conv], threads.thread)
    every = threads.extents
    if sharing > 1:
        s[total].compute_at(s[conv], threads.thread)
        every = [*sorted(every, reverse=True), ("threadIdx.x", sharing)]
    reader, place = s[conv], threads.block
    if reduced:
        s[total].reorder(*outer, *inner, *s[total].op.axis[-4:])
        reader, place = s[total], outer[-1]
    for stage in shared:
        s[stage].compute_at(reader, place)
        te_common.fetch_together(s[stage], every)
    te_common.unroll(cfg, s[conv], threads.first)
    return s, [data, kernel, conv]


def _tile_output(
    cfg: TemplateConfig, s: te.Schedule, conv: te.Tensor, knobs: Sequence[str]
) -> tuple[te.Tensor, list[te.IterVar], tuple[te.IterVar, ...]]:
    """Sum tiles of the last axes, a knob each, in vectors of columns.

    Returns:
        The sums, the axes that are not tiled, and the loops over tiles.
    """
    local = te_common.summed_in_registers(s, conv)
    axes = list(s[conv].op.axis)
    whole, tiled = axes[: -len(knobs)], axes[-len(knobs) :]
    outer, inner = te_common.tile_axes(cfg, s, conv, dict(zip(knobs, tiled, strict=True)))
    s[conv].reorder(*whole, *outer, *inner)
    s[conv].vectorize(inner[-1])
    return local, whole, outer


def _sum_vectors(cfg: TemplateConfig, stage: te.Stage, reduction: Sequence[te.IterVar]) -> None:
    """Sum a tile in vectors of its columns; the last two of the reduction are over the filter.

    for f: for y: for x: for r:  ->  for r: for f: for y: for vector x:
    """
    _, f, y, x = stage.op.axis
    stage.reorder(*reduction, f, y, x)
    stage.vectorize(x)
    if cfg["unroll_kernel"].val:
        stage.unroll(reduction[-2])
        stage.unroll(reduction[-1])


@template("te/conv2d_nchw.cuda")
def conv2d_nchw_cuda(
    n: int, h: int, w: int, co: int, ci: int, kh: int, kw: int,
    stride: Extents = 1, padding: Extents = 0,
) -> Scheduled:  # fmt: skip
    """Convolve NCHW data: tiles of the output in blocks, virtual threads and threads.

    Input and filter pass through shared memory, a slice of the reduction at a time.
    """
    return on_gpu(*_conv2d(n, h, w, co, ci, kh, kw, stride, padding), CUDA_SLICES, tails=True)


@template("te/conv2d_nchw.cpu")
def conv2d_nchw_cpu(
    n: int, h: int, w: int, co: int, ci: int, kh: int, kw: int,
    stride: Extents = 1, padding: Extents = 0,
) -> Scheduled:  # fmt: skip
    """Convolve NCHW data: tiles of channels, rows and columns, vectors along the columns."""
    return on_cpu(*_conv2d(n, h, w, co, ci, kh, kw, stride, padding))


def on_cpu(data: te.Tensor, kernel: te.Tensor, conv: te.Tensor) -> Scheduled:
    """Tile a convolution NCHW by channels, rows and columns, in vectors along the columns."""
    s = te.create_schedule([conv.op])
    cfg = get_config()
    _, f, y, x = conv.op.axis
    rc, ry, rx = te_common.sum_of(conv).op.reduce_axis
    te_common.define_tile(cfg, "tile_f", f, (-1, 8), max_factor=32)
    te_common.define_tile(cfg, "tile_y", y, (-1, 1), max_factor=32)
    te_common.define_tile(cfg, "tile_x", x, (-1, 16), max_factor=64)
    te_common.define_tile(cfg, "tile_rc", rc, (-1, 16), max_factor=64)
    cfg.define_knob("unroll_kernel", [0, 1])

    padded = te_common.sum_of(conv).op.input_tensors[0]
    local, batch, outer = _tile_output(cfg, s, conv, ["tile_f", "tile_y", "tile_x"])
    s[conv].parallel(s[conv].fuse(*batch, *outer[:-1]))
    s[local].compute_at(s[conv], outer[-1])
    rc, ry, rx = s[local].op.reduce_axis
    rco, rci = cfg["tile_rc"].apply(s, local, rc)
    _sum_vectors(cfg, s[local], [rco, rci, ry, rx])
    # The padded rows of a tile are used by all its channels; the whole padded image is small.
    s[padded].parallel(s[padded].fuse(*s[padded].op.axis[:2]))
    return s, [data, kernel, conv]


@template("te/depthwise_conv2d_nchw.cuda")
def depthwise_conv2d_nchw_cuda(
    n: int, h: int, w: int, c: int, multiplier: int, kh: int, kw: int,
    stride: Extents = 1, padding: Extents = 0,
) -> Scheduled:  # fmt: skip
    """Depthwise convolution; a block stages its input tile and filters."""
    return on_gpu(*_depthwise(n, h, w, c, multiplier, kh, kw, stride, padding), (), tails=True)


@template("te/depthwise_conv2d_nchw.cpu")
def depthwise_conv2d_nchw_cpu(
    n: int, h: int, w: int, c: int, multiplier: int, kh: int, kw: int,
    stride: Extents = 1, padding: Extents = 0,
) -> Scheduled:  # fmt: skip
    """Depthwise convolution: a channel a task, vectors along columns."""
    return depthwise_on_cpu(*_depthwise(n, h, w, c, multiplier, kh, kw, stride, padding))


def depthwise_on_cpu(data: te.Tensor, kernel: te.Tensor, conv: te.Tensor) -> Scheduled:
    """Sum a channel a task, tiles of its rows and columns in vectors."""
    s = te.create_schedule([conv.op])
    cfg = get_config()
    _, _, y, x = conv.op.axis
    te_common.define_tile(cfg, "tile_y", y, (-1, 4), max_factor=16)
    te_common.define_tile(cfg, "tile_x", x, (-1, 16), max_factor=64)
    cfg.define_knob("unroll_kernel", [0, 1])

    padded = te_common.sum_of(conv).op.input_tensors[0]
    local, images, outer = _tile_output(cfg, s, conv, ["tile_y", "tile_x"])
    task = s[conv].fuse(*images)
    s[conv].parallel(task)
    s[padded].compute_at(s[conv], task)
    s[local].compute_at(s[conv], outer[-1])
    _sum_vectors(cfg, s[local], s[local].op.reduce_axis)
    return s, [data, kernel, conv]
