"""Matrix products as tensor expressions: gemm and dense, for CUDA and the CPU."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import partial

from autotune import get_config, te, topi
from autotune.ir import bits_of, reads_in
from autotune.ir.structure import variables
from autotune.task import TemplateConfig

from . import te_common
from .arguments import template
from .te_common import Scheduled
from .te_limits import Block, Point, block_part, keep_possible, shared_part, thread_part

# Tiles of rows and columns from which the choice of untuned kernels on a GPU starts: virtual
# threads, threads, and a thread's own part; slices of the sum, and threads that share it.
CUDA_STARTS = (
    ((2, 16, 2), (2, 8, 4), 32, 2),
    ((2, 8, 4), (2, 16, 4), 64, 2),
    ((1, 16, 2), (1, 8, 4), 64, 2),
    ((2, 8, 4), (2, 8, 4), 8, 1),
    ((1, 8, 4), (1, 16, 4), 16, 1),
    ((1, 8, 4), (1, 8, 4), 16, 4),
    ((2, 8, 2), (1, 16, 4), 32, 2),
    ((1, 4, 8), (1, 8, 4), 32, 8),
    ((1, 4, 4), (1, 8, 4), 32, 8),
    ((1, 8, 2), (1, 8, 2), 32, 4),
    ((1, 4, 1), (1, 4, 2), 64, 16),
    ((1, 1, 1), (1, 8, 1), 128, 32),
)


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
    sharing = _define_cuda_knobs(cfg, i, j, k)
    depth = te_common.extent_of(k)
    _suggest_cuda_starts(cfg, a, b, depth)

    local = te_common.summed_in_registers(s, c)
    along = _along_sum(local)
    keep_possible(cfg, partial(_block_of, along, bits_of(a.dtype) // 8, depth))
    # Where both matrices are stored along the sum, neighbouring threads take neighbours of it.
    tags, tag_k = ("zy", "threadIdx.x") if all(along) else ("yx", "threadIdx.z")
    total, (ko,), (ki,) = te_common.share_sum(
        cfg, s, local, ["tile_k"], sharing, tag_k, all(along)
    )
    shared = [s.cache_read(t, "shared", [total]) for t in (a, b)]
    registers = [s.cache_read(t, "local", [total]) for t in shared]
    threads = te_common.on_threads(cfg, s, c, ["tile_i", "tile_j"], threads_of=tags)
    s[local].compute_at(s[c], threads.thread)
    s[total].compute_at(s[c], threads.thread)
    s[total].reorder(ko, ki, *s[total].op.axis[-2:])
    every = [*threads.extents]
    every.insert(len(every) if all(along) else 0, (tag_k, sharing))
    vector = cfg["vector"].val
    for stage, own, rows in zip(shared, registers, along, strict=True):
        s[stage].compute_at(s[total], ko)
        s[own].compute_at(s[total], ki)
        if rows:  # apart by an odd number of vectors, in other banks
            s[stage].storage_align(s[stage].op.axis[0], 2 * vector, vector)
        te_common.fetch_together(s[stage], every, vector)
        if cfg["pipeline"].val == 1:
            s[stage].double_buffer()
        elif cfg["pipeline"].val > 1:
            s[stage].async_copy(cfg["pipeline"].val)
    te_common.unroll(cfg, s[c], threads.first)
    return s, [a, b, c]


def _define_cuda_knobs(cfg: TemplateConfig, i: te.IterVar, j: te.IterVar, k: te.IterVar) -> int:
    """Declare the knobs of `schedule_cuda`; return how many threads share each sum."""
    sharing = te_common.define_sharing(cfg, "tile_k")
    for name, axis in (("tile_i", i), ("tile_j", j)):
        cfg.define_split(name, axis, "verbose", num_outputs=4, max_factor=64)
    cfg.define_split("tile_k", k, "verbose", num_outputs=2, max_factor=128)
    cfg.define_knob("vector", [1, 2, 4])
    # 0: fetch, then compute; 1: fetch the next slice while computing; n: n slices fetched ahead by
    # asynchronous copies.
    cfg.define_knob("pipeline", [0, 1, 2, 3, 4])
    te_common.define_unroll(cfg)
    return sharing


def _suggest_cuda_starts(cfg: TemplateConfig, a: te.Tensor, b: te.Tensor, depth: int) -> None:
    """Name the points of `CUDA_STARTS`, for sums of ``depth`` products."""
    lengths = [topi.utils.get_const_tuple(each.shape)[1] for each in (a, b)]
    for tile_i, tile_j, slice_k, threads_k in CUDA_STARTS:
        te_common.suggest(
            cfg,
            {
                "tile_i": tile_i,
                "tile_j": tile_j,
                # As many slices, of one length: a shorter last one has conditions everywhere.
                "tile_k": [math.ceil(depth / math.ceil(depth / slice_k))],
                "sharing": threads_k,
                "vector": math.gcd(4, *lengths),
                "pipeline": 3 if a.dtype == "float32" else 0,
                "auto_unroll_max_step": 512,
                "unroll_explicit": 1,
            },
        )


def _block_of(along: Sequence[bool], item: int, depth: int, c: Point) -> Block:
    """Return what a block of `schedule_cuda` takes.

    Args:
        along: `_along_sum`.
        item: bytes of an element.
        depth: how much is added up.
        c: the point.
    """
    sharing, vector, pipeline = (c[name].val for name in ("sharing", "vector", "pipeline"))
    threads = sharing * c["tile_i"].size[2] * c["tile_j"].size[2]
    deep = shared_part(c, "tile_k")
    apart = deep + (vector - deep) % (2 * vector)
    rows = (block_part(c, "tile_i"), block_part(c, "tile_j"))
    staged = sum(n * (apart if own else deep) for n, own in zip(rows, along, strict=True))
    # Of a sum in one slice there is no next one.
    slices = 1 + (c["tile_k"].size[1] < depth) * (pipeline + (pipeline <= 1) - 1)
    # Threads of several warps exchange what they have of a sum through shared memory.
    virtual = c["tile_i"].size[1] * c["tile_j"].size[1]
    exchanged = 0 if all(along) else 4 * (sharing > 1) * threads * virtual
    return Block(
        threads,
        deep=sharing if not all(along) else c["tile_i"].size[2],
        sums=thread_part(c, "tile_i") * thread_part(c, "tile_j"),
        shared_bytes=item * slices * staged + exchanged,
    )


def _along_sum(total: te.Tensor) -> list[bool]:
    """Return for each factor of a sum of products whether neighbours in memory are added up."""
    over = {axis.var for axis in total.op.reduce_axis}
    assert isinstance(total.op, te.ComputeOp)
    return [not over.isdisjoint(variables(each.indices[-1])) for each in reads_in(*total.op.body)]


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
