"""Convolutions as tensor expressions: direct NCHW and depthwise, for CUDA and the CPU."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from autotune import get_config, te, topi
from autotune.task import OtherOptionEntity, TemplateConfig

from . import te_common
from .arguments import template
from .te_common import Scheduled
from .te_untuned import CUDA_UNROLL, Tile, output_tiles, slices

Extents = int | Sequence[int]
Tensors = tuple[te.Tensor, te.Tensor, te.Tensor]

# What suits a block on a GPU, and the largest slices of the reduction.
CUDA_TILES = {"tile_f": Tile(1, 8, 4), "tile_y": Tile(1, 4, 1), "tile_x": Tile(1, 8, 1)}
CUDA_SLICES = {"tile_rc": 8, "tile_ry": 64, "tile_rx": 64}


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
    cfg: TemplateConfig, padded: te.Tensor, conv: te.Tensor, most: Mapping[str, int]
) -> None:
    """Declare tiles of the output, and those slices of the reduction that have a largest size."""
    images, *extents = topi.utils.get_const_tuple(conv.shape)
    tiles = output_tiles(extents, [*CUDA_TILES.values()], images)
    for name, axis, tile in zip(CUDA_TILES, conv.op.axis[1:], tiles, strict=True):
        te_common.define_tile(cfg, name, axis, tile)
    if not most:
        return
    f, y, x = (-math.prod(tile) for tile in tiles)
    _, rows, columns = extents
    _, _, h, w = topi.utils.get_const_tuple(padded.shape)

    def staged(sizes: Sequence[int]) -> int:
        rc, ry, rx = sizes
        count: int = rc * (f * ry * rx + (y * h // rows + ry) * (x * w // columns + rx))
        return 4 * count

    reduced = te_common.sum_of(conv).op.reduce_axis
    lengths = [te_common.extent_of(axis) for axis in reduced]
    sizes = slices(lengths, [*most.values()], staged)
    for name, axis, size in zip(most, reduced, sizes, strict=True):
        te_common.define_tile(cfg, name, axis, (-1, size))


def _stage(s: te.Schedule, conv: te.Tensor) -> tuple[te.Tensor, list[te.Tensor]]:
    """Sum in registers what is read through shared memory; return the sums and what is shared."""
    padded, kernel = te_common.sum_of(conv).op.input_tensors
    s[padded].compute_inline()
    local = te_common.summed_in_registers(s, conv)
    return local, [s.cache_read(t, "shared", [local]) for t in (padded, kernel)]


def on_gpu(
    data: te.Tensor, kernel: te.Tensor, conv: te.Tensor, most: Mapping[str, int]
) -> Scheduled:
    """Tile the output in blocks, virtual threads and threads.

    ``most`` has the largest slices of the reduction, slice by slice of which passes through shared
    memory; without any a block stages all that it reads at once.
    """
    s = te.create_schedule([conv.op])
    cfg = get_config()
    _define_tiles(cfg, te_common.sum_of(conv).op.input_tensors[0], conv, most)
    if cfg.is_fallback and most:
        cfg["auto_unroll_max_step"], cfg["unroll_explicit"] = map(OtherOptionEntity, CUDA_UNROLL)
    te_common.define_unroll(cfg)

    local, shared = _stage(s, conv)
    threads = te_common.on_threads(cfg, s, conv, list(CUDA_TILES))
    s[local].compute_at(s[conv], threads.thread)
    reader, place = s[conv], threads.block
    if most:
        spatial, reduced = s[local].op.axis, s[local].op.reduce_axis
        outer, inner = te_common.tile_axes(cfg, s, local, dict(zip(most, reduced, strict=True)))
        s[local].reorder(*outer, *inner, *spatial)
        reader, place = s[local], outer[-1]
    for stage in shared:
        s[stage].compute_at(reader, place)
        te_common.fetch_together(s[stage], threads.extents)
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
    return on_gpu(*_conv2d(n, h, w, co, ci, kh, kw, stride, padding), CUDA_SLICES)


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
    return on_gpu(*_depthwise(n, h, w, c, multiplier, kh, kw, stride, padding), {})


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
