"""Convolutions as tensor expressions: direct NCHW and depthwise, for CUDA and the CPU."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from autotune import get_config, te, template, topi

from . import te_common

Extents = int | Sequence[int]
Scheduled = tuple[te.Schedule, list[te.Tensor]]

# Largest tiles where nothing was tuned: blocks (free), virtual threads, threads, and one thread's.
CUDA_TILES = {"tile_f": (-1, 1, 8, 4), "tile_y": (-1, 1, 4, 1), "tile_x": (-1, 1, 8, 1)}


def _conv2d(
    n: int, h: int, w: int, co: int, ci: int, kh: int, kw: int, stride: Extents, padding: Extents
) -> tuple[te.Tensor, te.Tensor, te.Tensor]:
    data = te.placeholder((n, ci, h, w), name="data")
    kernel = te.placeholder((co, ci, kh, kw), name="kernel")
    return data, kernel, topi.nn.conv2d_nchw(data, kernel, stride, padding)


@template("te/conv2d_nchw.cuda")
def conv2d_nchw_cuda(
    n: int, h: int, w: int, co: int, ci: int, kh: int, kw: int,
    stride: Extents = 1, padding: Extents = 0,
) -> Scheduled:  # fmt: skip
    """Convolve NCHW data: tiles of the output in blocks, virtual threads and threads.

    Input and filter pass through shared memory, a slice of the reduction at a time.
    """
    data, kernel, conv = _conv2d(n, h, w, co, ci, kh, kw, stride, padding)
    s = te.create_schedule([conv.op])
    cfg: Any = get_config()
    _, f, y, x = conv.op.axis
    rc, ry, rx = conv.op.reduce_axis
    for name, axis in (("tile_f", f), ("tile_y", y), ("tile_x", x)):
        cfg.define_split(name, axis, num_outputs=4)
    for name, axis in (("tile_rc", rc), ("tile_ry", ry), ("tile_rx", rx)):
        cfg.define_split(name, axis, num_outputs=2)
    te_common.define_unroll(cfg)
    reduction = {"tile_rc": (-1, 8), "tile_ry": (-1, 3), "tile_rx": (-1, 3)}
    te_common.untuned(cfg, {**CUDA_TILES, **reduction})

    padded = conv.op.input_tensors[0]
    s[padded].compute_inline()
    local = s.cache_write(conv, "local")
    shared = [s.cache_read(t, "shared", [local]) for t in (padded, kernel)]

    batch, f, y, x = s[conv].op.axis
    bf, vf, tf, fi = cfg["tile_f"].apply(s, conv, f)
    by, vy, ty, yi = cfg["tile_y"].apply(s, conv, y)
    bx, vx, tx, xi = cfg["tile_x"].apply(s, conv, x)
    s[conv].reorder(batch, bf, by, bx, vf, vy, vx, tf, ty, tx, fi, yi, xi)
    bf = s[conv].fuse(batch, bf)
    te_common.block_and_thread(
        s[conv],
        [
            (bf, "blockIdx.z"), (by, "blockIdx.y"), (bx, "blockIdx.x"),
            (vf, "vthread"), (vy, "vthread"), (vx, "vthread"),
            (tf, "threadIdx.z"), (ty, "threadIdx.y"), (tx, "threadIdx.x"),
        ],
    )  # fmt: skip
    s[local].compute_at(s[conv], tx)

    spatial = s[local].op.axis
    rc, ry, rx = s[local].op.reduce_axis
    rco, rci = cfg["tile_rc"].apply(s, local, rc)
    ryo, ryi = cfg["tile_ry"].apply(s, local, ry)
    rxo, rxi = cfg["tile_rx"].apply(s, local, rx)
    s[local].reorder(rco, ryo, rxo, rci, ryi, rxi, *spatial)
    threads = [
        (f"threadIdx.{d}", cfg[knob].size[2])
        for d, knob in (("z", "tile_f"), ("y", "tile_y"), ("x", "tile_x"))
    ]
    for stage in shared:
        s[stage].compute_at(s[local], rxo)
        te_common.fetch_together(s[stage], threads)
    te_common.unrolled(cfg, s[conv], bf)
    return s, [data, kernel, conv]


@template("te/conv2d_nchw.cpu")
def conv2d_nchw_cpu(
    n: int, h: int, w: int, co: int, ci: int, kh: int, kw: int,
    stride: Extents = 1, padding: Extents = 0,
) -> Scheduled:  # fmt: skip
    """Convolve NCHW data: tiles of channels, rows and columns, vectors along the columns."""
    data, kernel, conv = _conv2d(n, h, w, co, ci, kh, kw, stride, padding)
    s = te.create_schedule([conv.op])
    cfg: Any = get_config()
    _, f, y, x = conv.op.axis
    rc, ry, rx = conv.op.reduce_axis
    cfg.define_split("tile_f", f, num_outputs=2, max_factor=32)
    cfg.define_split("tile_y", y, num_outputs=2, max_factor=32)
    cfg.define_split("tile_x", x, num_outputs=2, max_factor=64)
    cfg.define_split("tile_rc", rc, num_outputs=2, max_factor=64)
    cfg.define_knob("unroll_kernel", [0, 1])
    te_common.untuned(
        cfg, {"tile_f": (-1, 8), "tile_y": (-1, 1), "tile_x": (-1, 16), "tile_rc": (-1, 16)}
    )

    padded = conv.op.input_tensors[0]
    local = s.cache_write(conv, "local")
    batch, f, y, x = s[conv].op.axis
    fo, fi = cfg["tile_f"].apply(s, conv, f)
    yo, yi = cfg["tile_y"].apply(s, conv, y)
    xo, xi = cfg["tile_x"].apply(s, conv, x)
    s[conv].reorder(batch, fo, yo, xo, fi, yi, xi)
    s[conv].vectorize(xi)
    task = s[conv].fuse(batch, fo, yo)
    s[conv].parallel(task)
    s[local].compute_at(s[conv], xo)

    _, f, y, x = s[local].op.axis
    rc, ry, rx = s[local].op.reduce_axis
    rco, rci = cfg["tile_rc"].apply(s, local, rc)
    s[local].reorder(rco, rci, ry, rx, f, y, x)
    s[local].vectorize(x)
    if cfg["unroll_kernel"].val:
        s[local].unroll(ry)
        s[local].unroll(rx)
    # The padded rows of a tile are used by all its channels; the whole padded image is small.
    s[padded].parallel(s[padded].fuse(*s[padded].op.axis[:2]))
    return s, [data, kernel, conv]


@template("te/depthwise_conv2d_nchw.cuda")
def depthwise_conv2d_nchw_cuda(
    n: int, h: int, w: int, c: int, multiplier: int, kh: int, kw: int,
    stride: Extents = 1, padding: Extents = 0,
) -> Scheduled:  # fmt: skip
    """Convolve every channel by filters of its own; a block stages its window and filters."""
    data = te.placeholder((n, c, h, w), name="data")
    kernel = te.placeholder((c, multiplier, kh, kw), name="kernel")
    conv = topi.nn.depthwise_conv2d_nchw(data, kernel, stride, padding)
    s = te.create_schedule([conv.op])
    cfg: Any = get_config()
    _, f, y, x = conv.op.axis
    for name, axis in (("tile_f", f), ("tile_y", y), ("tile_x", x)):
        cfg.define_split(name, axis, num_outputs=4)
    te_common.define_unroll(cfg)
    te_common.untuned(cfg, CUDA_TILES)

    padded = conv.op.input_tensors[0]
    s[padded].compute_inline()
    local = s.cache_write(conv, "local")
    shared = [s.cache_read(t, "shared", [local]) for t in (padded, kernel)]
    batch, f, y, x = s[conv].op.axis
    bf, vf, tf, fi = cfg["tile_f"].apply(s, conv, f)
    by, vy, ty, yi = cfg["tile_y"].apply(s, conv, y)
    bx, vx, tx, xi = cfg["tile_x"].apply(s, conv, x)
    s[conv].reorder(batch, bf, by, bx, vf, vy, vx, tf, ty, tx, fi, yi, xi)
    bf = s[conv].fuse(batch, bf)
    te_common.block_and_thread(
        s[conv],
        [
            (bf, "blockIdx.z"), (by, "blockIdx.y"), (bx, "blockIdx.x"),
            (vf, "vthread"), (vy, "vthread"), (vx, "vthread"),
            (tf, "threadIdx.z"), (ty, "threadIdx.y"), (tx, "threadIdx.x"),
        ],
    )  # fmt: skip
    s[local].compute_at(s[conv], tx)
    threads = [
        (f"threadIdx.{d}", cfg[knob].size[2])
        for d, knob in (("z", "tile_f"), ("y", "tile_y"), ("x", "tile_x"))
    ]
    for stage in shared:
        s[stage].compute_at(s[conv], bx)
        te_common.fetch_together(s[stage], threads)
    te_common.unrolled(cfg, s[conv], bf)
    return s, [data, kernel, conv]


@template("te/depthwise_conv2d_nchw.cpu")
def depthwise_conv2d_nchw_cpu(
    n: int, h: int, w: int, c: int, multiplier: int, kh: int, kw: int,
    stride: Extents = 1, padding: Extents = 0,
) -> Scheduled:  # fmt: skip
    """Convolve every channel by filters of its own: a channel a task, vectors along columns."""
    data = te.placeholder((n, c, h, w), name="data")
    kernel = te.placeholder((c, multiplier, kh, kw), name="kernel")
    conv = topi.nn.depthwise_conv2d_nchw(data, kernel, stride, padding)
    s = te.create_schedule([conv.op])
    cfg: Any = get_config()
    _, f, y, x = conv.op.axis
    cfg.define_split("tile_y", y, num_outputs=2, max_factor=16)
    cfg.define_split("tile_x", x, num_outputs=2, max_factor=64)
    cfg.define_knob("unroll_kernel", [0, 1])
    te_common.untuned(cfg, {"tile_y": (-1, 4), "tile_x": (-1, 16)})

    padded = conv.op.input_tensors[0]
    local = s.cache_write(conv, "local")
    batch, f, y, x = s[conv].op.axis
    yo, yi = cfg["tile_y"].apply(s, conv, y)
    xo, xi = cfg["tile_x"].apply(s, conv, x)
    s[conv].reorder(batch, f, yo, xo, yi, xi)
    s[conv].vectorize(xi)
    task = s[conv].fuse(batch, f)
    s[conv].parallel(task)
    s[padded].compute_at(s[conv], task)
    s[local].compute_at(s[conv], xo)
    _, f, y, x = s[local].op.axis
    di, dj = s[local].op.reduce_axis
    s[local].reorder(di, dj, f, y, x)
    s[local].vectorize(x)
    if cfg["unroll_kernel"].val:
        s[local].unroll(di)
        s[local].unroll(dj)
    return s, [data, kernel, conv]
