"""Schedules of any sum of products as tensor expressions: by its axes, whatever they are."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from autotune import get_config, te

from . import te_common
from .te_common import Scheduled

# Largest tiles where nothing was tuned: blocks (free), virtual threads, threads, and one thread's.
_CUDA_TILES = ((-1, 1, 8, 4), (-1, 1, 4, 1), (-1, 1, 8, 1))
# The same on a CPU, of the last two axes: free, and a tile's.
_CPU_TILES = ((-1, 1), (-1, 16))
# Of an axis of the reduction: over channels, and over the elements of a filter.
_CHANNELS, _TAPS = (-1, 8), (-1, 3)
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
    for (name, axis), untuned in zip(tiled.items(), _CUDA_TILES, strict=True):
        te_common.define_tile(cfg, name, axis, untuned)
    names = _define_slices(out)
    te_common.define_unroll(cfg)

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
    names = _define_slices(out)
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


def _define_slices(out: te.Tensor) -> list[str]:
    """Declare how the axes of the reduction are split; return the knobs."""
    names = [f"tile_{axis.var.name}" for axis in te_common.sum_of(out).op.reduce_axis]
    for name, axis in zip(names, te_common.sum_of(out).op.reduce_axis, strict=True):
        untuned = _CHANNELS if axis.var.name in _OF_CHANNELS else _TAPS
        te_common.define_tile(get_config(), name, axis, untuned, max_factor=64)
    return names
