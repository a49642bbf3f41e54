"""Schedules of any sum of products as tensor expressions: by its axes, whatever they are."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from functools import partial

from autotune import get_config, te, topi
from autotune.ir import Expr, reads_in
from autotune.ir.structure import variables
from autotune.task import OtherOptionEntity

from . import te_common
from .te_common import Scheduled
from .te_limits import Block, Point, block_part, keep_possible, staged_bytes, thread_part
from .te_untuned import CUDA_UNROLL, Tile, output_tiles, slices

# What suits a block on a GPU.
_CUDA_TILES = (Tile(1, 8, 4), Tile(1, 4, 1), Tile(1, 8, 1))
# The largest slices of an axis of the reduction there: over channels, and over taps of a filter.
_CUDA_CHANNELS, _CUDA_TAPS = 8, 64
# Largest tiles on a CPU where nothing was tuned, of the last two axes (free, and a tile's), and
# of axes of the reduction.
_CPU_TILES = ((-1, 1), (-1, 16))
_CPU_CHANNELS, _CPU_TAPS = 8, 3
_OF_CHANNELS = ("rc", "dc", "k")


def on_gpu(
    inputs: Sequence[te.Tensor], out: te.Tensor, tiled: Mapping[str, te.IterVar]
) -> Scheduled:
    """Tile three axes in blocks, virtual threads and threads, a knob each; the others are blocks.

    What is read passes through shared memory, a slice of the reduction at a time.

    Args:
        inputs: what the kernel takes.
        out: a sum of products of two tensors, which may be computed from the inputs.
        tiled: axes by their knobs, the one of fewest neighbours first.
    """
    s, cfg = te.create_schedule([out.op]), get_config()
    extents = [te_common.extent_of(axis) for axis in tiled.values()]
    images = math.prod(topi.utils.get_const_tuple(out.shape)) // math.prod(extents)
    tiles = output_tiles(extents, _CUDA_TILES, images)
    for (name, axis), untuned in zip(tiled.items(), tiles, strict=True):
        te_common.define_tile(cfg, name, axis, untuned)
    sizes = [-math.prod(tile) for tile in tiles]
    names = _define_slices(out, _cuda_slices(out, dict(zip(tiled.values(), sizes, strict=True))))
    if cfg.is_fallback:
        cfg["auto_unroll_max_step"], cfg["unroll_explicit"] = map(OtherOptionEntity, CUDA_UNROLL)
    te_common.define_unroll(cfg)
    keep_possible(cfg, partial(_block_of, out, tiled, names))

    local = te_common.summed_in_registers(s, out)
    shared = []
    for each in s[local].op.input_tensors:
        if not isinstance(each.op, te.PlaceholderOp):
            s[each].compute_inline()
        shared.append(s.cache_read(each, "shared", [local]))
    threads = te_common.on_threads(cfg, s, out, [*tiled], [*tiled.values()])
    s[local].compute_at(s[out], threads.thread)
    spatial, reduced = s[local].op.axis, s[local].op.reduce_axis
    outer, inner = te_common.tile_axes(cfg, s, local, dict(zip(names, reduced, strict=True)))
    s[local].reorder(*outer, *inner, *spatial)
    for stage in shared:
        s[stage].compute_at(s[local], outer[-1])
        te_common.fetch_together(s[stage], threads.extents)
    te_common.unroll(cfg, s[out], threads.first)
    return s, [*inputs, out]


def _block_of(
    out: te.Tensor, tiled: Mapping[str, te.IterVar], reduced: Sequence[str], c: Point
) -> Block:
    """Return what a block of `on_gpu` takes."""
    total = te_common.sum_of(out).op
    knob_of = {axis: name for name, axis in tiled.items()}
    parts = zip(total.axis, out.op.axis, strict=True)
    sizes = {a.var: block_part(c, knob_of[own]) for a, own in parts if own in knob_of}
    slices_of = zip(total.reduce_axis, reduced, strict=True)
    sizes |= {axis.var: c[name].size[1] for axis, name in slices_of}
    threads = [c[name].size[2] for name in tiled]
    return Block(
        math.prod(threads),
        deep=threads[0],
        sums=math.prod(thread_part(c, name) for name in tiled),
        shared_bytes=staged_bytes(te_common.sum_of(out), sizes),
    )


def on_cpu(inputs: Sequence[te.Tensor], out: te.Tensor) -> Scheduled:
    """Sum tiles of the last two axes, in vectors of the last; all others are tasks.

    Args:
        inputs: what the kernel takes.
        out: a sum of products of two tensors, which may be computed from the inputs.
    """
    s, cfg = te.create_schedule([out.op]), get_config()
    knobs = ("tile_y", "tile_x")
    for name, axis, untuned in zip(knobs, out.op.axis[-2:], _CPU_TILES, strict=True):
        te_common.define_tile(cfg, name, axis, untuned, max_factor=64)
    names = _define_slices(out, _largest(out, _CPU_CHANNELS, _CPU_TAPS))
    cfg.define_knob("unroll", [0, 1])

    local = te_common.summed_in_registers(s, out)
    for each in s[local].op.input_tensors:
        if not isinstance(each.op, te.PlaceholderOp):  # padded data, which all tasks read
            s[each].parallel(s[each].fuse(*s[each].op.axis[:2]))
    axes = list(s[out].op.axis)
    outer, inner = te_common.tile_axes(cfg, s, out, dict(zip(knobs, axes[-2:], strict=True)))
    s[out].reorder(*axes[:-2], *outer, *inner)
    s[out].vectorize(inner[-1])
    s[out].parallel(s[out].fuse(*axes[:-2], outer[0]))
    s[local].compute_at(s[out], outer[-1])
    spatial, reduced = s[local].op.axis, s[local].op.reduce_axis
    far, near = te_common.tile_axes(cfg, s, local, dict(zip(names, reduced, strict=True)))
    s[local].reorder(*far, *near, *spatial)
    s[local].vectorize(spatial[-1])
    if cfg["unroll"].val:
        s[local].unroll(near[-1])
    return s, [*inputs, out]


def _define_slices(out: te.Tensor, untuned: Sequence[int]) -> list[str]:
    """Declare how the axes of the reduction are split; return the knobs."""
    reduced = te_common.sum_of(out).op.reduce_axis
    names = [f"tile_{axis.var.name}" for axis in reduced]
    for name, axis, size in zip(names, reduced, untuned, strict=True):
        te_common.define_tile(get_config(), name, axis, (-1, size), max_factor=64)
    return names


def _largest(out: te.Tensor, channels: int, taps: int) -> list[int]:
    """Return a size for each axis of the reduction."""
    reduced = te_common.sum_of(out).op.reduce_axis
    return [channels if axis.var.name in _OF_CHANNELS else taps for axis in reduced]


def _cuda_slices(out: te.Tensor, tile: Mapping[te.IterVar, int]) -> list[int]:
    """Return slices of the reduction, which fit into shared memory beside each other."""
    reduced = te_common.sum_of(out).op.reduce_axis
    extents = [te_common.extent_of(axis) for axis in reduced]
    return slices(extents, _largest(out, _CUDA_CHANNELS, _CUDA_TAPS), partial(_staged, out, tile))


def _staged(out: te.Tensor, tile: Mapping[te.IterVar, int], sizes: Sequence[int]) -> int:
    """Return about how many bytes a block stages for a tile of the output and of the reduction."""
    total = te_common.sum_of(out).op
    slice_of = dict(zip((axis.var for axis in total.reduce_axis), sizes, strict=True))
    parts = zip(total.axis, out.op.axis, strict=True)
    part_of = {a.var: tile.get(own, 1) / te_common.extent_of(own) for a, own in parts}

    def region(index: Expr, extent: int) -> float:
        return sum(slice_of.get(v) or part_of[v] * extent for v in variables(index))

    assert isinstance(total, te.ComputeOp)
    loads = reads_in(total.body[0])
    counts = [math.prod(map(region, each.indices, each.tensor.shape)) for each in loads]
    return 4 * math.ceil(sum(counts))
