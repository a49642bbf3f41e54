"""Matrix products as tensor expressions: gemm and dense, for CUDA and the CPU."""

from __future__ import annotations

from autotune import get_config, te, topi
from autotune.task import OtherOptionEntity

from . import te_common
from .arguments import template
from .te_common import Scheduled
from .te_untuned import Tile, output_tiles, slice_of

# What suits a block of the product on a GPU: tiles of rows and columns, slices of the sum, and how
# many of these are fetched ahead.
CUDA_TILE, CUDA_SLICE, CUDA_PIPELINE = Tile(virtual=2, threads=8, own=4), 8, 3


def _gemm(m: int, n: int, k: int, transposed: bool) -> tuple[te.Tensor, te.Tensor, te.Tensor]:
    a = te.placeholder((m, k), name="A")
    b = te.placeholder((n, k) if transposed else (k, n), name="B")
    return a, b, topi.nn.matmul(a, b, transpose_b=transposed)


def schedule_cuda(a: te.Tensor, b: te.Tensor, c: te.Tensor) -> Scheduled:
    """Tile the product in blocks, virtual threads and threads, with inputs in shared memory."""
    s = te.create_schedule([c.op])
    cfg = get_config()
    i, j = c.op.axis
    k = te_common.sum_of(c).op.reduce_axis[0]
    tiles = output_tiles(topi.utils.get_const_tuple(c.shape), [CUDA_TILE, CUDA_TILE])
    for name, axis, untuned in zip(("tile_i", "tile_j"), (i, j), tiles, strict=True):
        te_common.define_tile(cfg, name, axis, untuned, max_factor=64)
    slice_k = slice_of(te_common.extent_of(k), CUDA_SLICE)
    te_common.define_tile(cfg, "tile_k", k, (-1, slice_k), max_factor=64)
    cfg.define_knob("vector", [1, 2, 4])
    # 0: fetch, then compute; 1: fetch the next slice while computing; n: n slices fetched ahead by
    # asynchronous copies.
    cfg.define_knob("pipeline", [0, 1, 2, 3, 4])
    if cfg.is_fallback and a.dtype == "float32":
        cfg["pipeline"] = OtherOptionEntity(CUDA_PIPELINE)
    te_common.define_unroll(cfg)

    local = te_common.summed_in_registers(s, c)
    shared = [s.cache_read(t, "shared", [local]) for t in (a, b)]
    registers = [s.cache_read(t, "local", [local]) for t in shared]
    threads = te_common.on_threads(cfg, s, c, ["tile_i", "tile_j"])
    s[local].compute_at(s[c], threads.thread)
    i, j = s[local].op.axis
    ko, ki = cfg["tile_k"].apply(s, local, s[local].op.reduce_axis[0])
    s[local].reorder(ko, ki, i, j)
    for stage, own in zip(shared, registers, strict=True):
        s[stage].compute_at(s[local], ko)
        s[own].compute_at(s[local], ki)
        te_common.fetch_together(s[stage], threads.extents, cfg["vector"].val)
        if cfg["pipeline"].val == 1:
            s[stage].double_buffer()
        elif cfg["pipeline"].val > 1:
            s[stage].async_copy(cfg["pipeline"].val)
    te_common.unroll(cfg, s[c], threads.first)
    return s, [a, b, c]


def schedule_cpu(a: te.Tensor, b: te.Tensor, c: te.Tensor) -> Scheduled:
    """Tile the product for cache and registers, with vectors along the columns."""
    s = te.create_schedule([c.op])
    cfg = get_config()
    i, j = c.op.axis
    te_common.define_tile(cfg, "tile_i", i, (-1, 8, 4), max_factor=64)
    te_common.define_tile(cfg, "tile_j", j, (-1, 4, 16), max_factor=128)
    te_common.define_tile(
        cfg, "tile_k", te_common.sum_of(c).op.reduce_axis[0], (-1, 16), max_factor=64
    )
    cfg.define_knob("unroll", [0, 1])
    # What is unrolled is compiled line by line: beyond this a compiler takes minutes.
    cfg.multi_filter(
        lambda c: not c["unroll"].val or c["tile_i"].size[-1] * c["tile_k"].size[-1] <= 64
    )

    local = te_common.summed_in_registers(s, c)
    i, j = s[c].op.axis
    outer, middle, inner = te_common.tile_axes(cfg, s, c, {"tile_i": i, "tile_j": j})
    s[c].reorder(*outer, *middle, *inner)
    s[c].vectorize(inner[-1])
    s[c].parallel(s[c].fuse(*outer))
    s[local].compute_at(s[c], middle[-1])
    i, j = s[local].op.axis
    ko, ki = cfg["tile_k"].apply(s, local, s[local].op.reduce_axis[0])
    s[local].reorder(ko, ki, i, j)
    s[local].vectorize(j)
    if cfg["unroll"].val:
        s[local].unroll(i)
        s[local].unroll(ki)
    return s, [a, b, c]


@template("te/gemm.cuda")
def gemm_cuda(m: int, n: int, k: int) -> Scheduled:
    """Multiply float32 matrices, C[m, n] = A[m, k] B[k, n]."""
    return schedule_cuda(*_gemm(m, n, k, transposed=False))


@template("te/gemm.cpu")
def gemm_cpu(m: int, n: int, k: int) -> Scheduled:
    """Multiply float32 matrices, C[m, n] = A[m, k] B[k, n]."""
    return schedule_cpu(*_gemm(m, n, k, transposed=False))


@template("te/dense.cuda")
def dense_cuda(batch: int, out_dim: int, in_dim: int) -> Scheduled:
    """Apply a dense layer: data [batch, in] by the transpose of weight [out, in]."""
    return schedule_cuda(*_gemm(batch, out_dim, in_dim, transposed=True))


@template("te/dense.cpu")
def dense_cpu(batch: int, out_dim: int, in_dim: int) -> Scheduled:
    """Apply a dense layer: data [batch, in] by the transpose of weight [out, in]."""
    return schedule_cpu(*_gemm(batch, out_dim, in_dim, transposed=True))
