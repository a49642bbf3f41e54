"""Winograd's convolution as tensor expressions for CUDA, with the knobs of TVM's template."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from autotune import get_config, te, topi

from . import te_common
from .arguments import template
from .convolutions.window_shape import four
from .te_common import Scheduled
from .te_limits import Block, Point, block_part, keep_possible, staged_bytes, thread_part

# Rows of the data of which tiles of 4 outputs are cut; others have tiles of 2.
_COARSE = 8
_THREADS = 128
# Largest tiles where nothing was tuned: blocks (free), virtual threads, threads, and one thread's.
_TILES = {"tile_y": (-1, 1, 8, 4), "tile_x": (-1, 1, 16, 2)}


def tile_of(rows: int) -> int:
    """Return how many outputs a tile has in each direction, for data of so many rows."""
    return 4 if rows % _COARSE == 0 else 2


def conv2d_nchw(
    data: te.Tensor,
    kernel: te.Tensor,
    padding: tuple[int, ...],
    out_dtype: str,
    possible: bool = False,
) -> Scheduled:
    """Convolve images NCHW by filters that were transformed ahead of time, at stride 1.

    The kernel takes data, the filters [alpha, alpha, out, in], and out: one launch transforms the
    data, one multiplies for each point of the transform, and one transforms the products back.
    ``possible`` says whether to leave out what the device cannot run; TVM's space has all points.
    """
    _, _, rows, _ = topi.utils.get_const_tuple(data.shape)
    co, ci, k, _ = topi.utils.get_const_tuple(kernel.shape)
    tile = tile_of(rows)
    alpha = tile + k - 1
    weight = te.placeholder((alpha, alpha, co, ci), kernel.dtype, "weight")
    out = topi.nn.conv2d_winograd_nchw(
        data, weight, 1, padding, 1, out_dtype, pre_computed=True, tile_size=tile
    )
    s = te.create_schedule([out.op])
    inverse = out.op.input_tensors[0]
    products = inverse.op.input_tensors[0]
    packed = products.op.input_tensors[0]
    _transform_data(s, packed)
    _multiply(s, products, possible)
    _transform_back(s, out, inverse, tile)
    return s, [data, weight, out]


@template("te/conv2d_nchw_winograd.cuda")
def conv2d_nchw_cuda(
    n: int, h: int, w: int, co: int, ci: int, k: int, padding: int | Sequence[int] = 0
) -> Scheduled:
    """Convolve NCHW data by k x k filters as `conv2d_nchw` does: they are transformed already."""
    data = te.placeholder((n, ci, h, w), name="data")
    kernel = te.placeholder((co, ci, k, k), name="kernel")
    return conv2d_nchw(
        data, kernel, four("te/conv2d_nchw_winograd", padding), "float32", possible=True
    )


def _transform_data(s: te.Schedule, packed: te.Tensor) -> None:
    """Give each thread the tiles of one channel at one position."""
    tiles, matrix = packed.op.input_tensors
    s[matrix].compute_inline()
    s[tiles.op.input_tensors[0]].compute_inline()
    local = s.cache_write(packed, "local")
    eps, nu, c, p = s[packed].op.axis
    thread = _on_threads(s[packed], [c, p], [eps, nu])
    s[local].compute_at(s[packed], thread)
    s[tiles].compute_at(s[packed], thread)
    rows, columns, _, _ = s[local].op.axis
    for axis in (rows, columns, *s[local].op.reduce_axis):
        s[local].unroll(axis)


def _block_of(products: te.Tensor, c: Point) -> Block:
    """Return what a block of `_multiply` takes."""
    _, _, *own = products.op.axis
    y, x = (block_part(c, name) for name in _TILES)
    axes = (*own, *products.op.reduce_axis)
    sizes = zip((axis.var for axis in axes), (y, x, c["tile_rc"].size[1]), strict=True)
    return Block(
        c["tile_y"].size[2] * c["tile_x"].size[2],
        deep=1,
        sums=thread_part(c, "tile_y") * thread_part(c, "tile_x"),
        shared_bytes=staged_bytes(products, dict(sizes)),
    )


def _multiply(s: te.Schedule, products: te.Tensor, possible: bool) -> None:
    """Tile the products of all points of the transform, with inputs in shared memory."""
    cfg = get_config()
    _, _, y, x = products.op.axis
    height, width, _, _ = topi.utils.get_const_tuple(products.shape)
    cfg.define_split(
        "tile_b", height * width, num_outputs=4, filter=lambda entity: entity.size[1:] == [1, 1, 1]
    )
    if cfg.is_fallback:
        cfg.fallback_split("tile_b", [-1, 1, 1, 1])
    for axis, (name, untuned) in zip((y, x), _TILES.items(), strict=True):
        te_common.define_tile(cfg, name, axis, untuned)
    te_common.define_tile(cfg, "tile_rc", products.op.reduce_axis[0], (-1, 8))
    cfg.define_knob("auto_unroll_max_step", [0, 128, 1500])
    cfg.define_knob("unroll_explicit", [0, 1])
    if possible:
        keep_possible(cfg, partial(_block_of, products))

    local = s.cache_write(products, "local")
    shared = [s.cache_read(one, "shared", [local]) for one in local.op.input_tensors]
    threads = te_common.on_threads(cfg, s, products, [*_TILES])
    s[local].compute_at(s[products], threads.thread)
    outer, inner = cfg["tile_rc"].apply(s, local, s[local].op.reduce_axis[0])
    s[local].reorder(outer, inner, *s[local].op.axis)
    for one in shared:
        s[one].compute_at(s[local], outer)
        te_common.fetch_together(s[one], threads.extents)
    te_common.unroll(cfg, s[products], threads.first)


def _transform_back(s: te.Schedule, out: te.Tensor, inverse: te.Tensor, tile: int) -> None:
    """Give each thread a tile of the output."""
    s[inverse.op.input_tensors[1]].compute_inline()
    n, c, y, x = s[out].op.axis
    yo, yi = s[out].split(y, factor=tile)
    xo, xi = s[out].split(x, factor=tile)
    s[inverse].compute_at(s[out], _on_threads(s[out], [n, c, yo, xo], [yi, xi]))
    _, _, rows, columns = s[inverse].op.axis
    for axis in (rows, columns, *s[inverse].op.reduce_axis):
        s[inverse].unroll(axis)


def _on_threads(stage: te.Stage, shared: list[te.IterVar], own: list[te.IterVar]) -> te.IterVar:
    """Divide loops among blocks of threads; each thread has the others to itself."""
    stage.reorder(*shared, *own)
    block, thread = stage.split(stage.fuse(*shared), factor=_THREADS)
    stage.bind(block, te.thread_axis("blockIdx.x"))
    stage.bind(thread, te.thread_axis("threadIdx.x"))
    return thread
