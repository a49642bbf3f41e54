"""Pieces of schedules that several te templates use."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from autotune import te, topi
from autotune.task import OtherOptionEntity, SplitEntity, TemplateConfig

from .products.gemm_shape import HALVES

Scheduled = tuple[te.Schedule, list[te.Tensor]]


def extent_of(axis: te.IterVar) -> int:
    """Return the extent of an axis of a computed tensor."""
    assert axis.dom is not None
    return int(topi.utils.get_const_int(axis.dom.extent))


def define_tile(
    cfg: TemplateConfig,
    name: str,
    axis: te.IterVar,
    untuned: Sequence[int],
    max_factor: int = 1 << 31,
) -> None:
    """Declare how an axis is split.

    Args:
        cfg: the space or the point of it.
        name: the knob.
        axis: what is split, into as many loops as ``untuned`` has sizes.
        untuned: where nothing was tuned, the largest size of each loop; -1 is any.
        max_factor: the largest size of an inner loop.
    """
    cfg.define_split(name, axis, num_outputs=len(untuned), max_factor=max_factor)
    if cfg.is_fallback:
        cfg.fallback_split(name, list(untuned))


def suggest(cfg: TemplateConfig, values: Mapping[str, object]) -> None:
    """Name a point from which the estimate of untuned kernels, and a search, start.

    ``values`` has a value for each knob; of splits the inner sizes.
    """
    cfg.suggest(
        {
            name: SplitEntity([-1, *value])
            if isinstance(value, (tuple, list))
            else OtherOptionEntity(value)
            for name, value in values.items()
        }
    )


def tile_axes(
    cfg: TemplateConfig, s: te.Schedule, tensor: te.Tensor, axes: Mapping[str, te.IterVar]
) -> list[tuple[te.IterVar, ...]]:
    """Split each axis by the knob that it is given under; return the loops level by level.

    With knobs of two loops, y and x become [(y.outer, x.outer), (y.inner, x.inner)].
    """
    parts = [cfg[knob].apply(s, tensor, axis) for knob, axis in axes.items()]
    return list(zip(*parts, strict=True))


@dataclass(frozen=True)
class Threads:
    """The loops of a stage that run on blocks and threads.

    Attributes:
        first: the loop of blocks that is outermost.
        block: the innermost loop of blocks.
        thread: the innermost loop of threads.
        extents: thread tags with their extents, slowest first.
    """

    first: te.IterVar
    block: te.IterVar
    thread: te.IterVar
    extents: list[tuple[str, int]]


def sum_of(out: te.Tensor) -> te.Tensor:
    """Return the sum of products that a tensor is, or that it rounds."""
    return out if out.op.reduce_axis else out.op.input_tensors[0]


def rounded_sum(total: Callable[[str], te.Tensor], dtype: str) -> te.Tensor:
    """Return a sum as a type: 16-bit floats are summed in float32, and rounded once.

    Args:
        total: the sum, by the type in which it is summed.
        dtype: of the result.
    """
    return topi.cast(total("float32"), dtype) if dtype in HALVES else total(dtype)


def summed_in_registers(s: te.Schedule, out: te.Tensor) -> te.Tensor:
    """Return the stage that accumulates: a copy of ``out`` in registers, or what it rounds."""
    total = sum_of(out)
    if total is out:
        copy: te.Tensor = s.cache_write(out, "local")
        return copy
    s[total].set_scope("local")
    return total


def define_sharing(cfg: TemplateConfig, knob: str) -> int:
    """Declare how many threads share each sum, before ``knob``, which splits what they share.

    Returns:
        How many they are; 1 in records from before there was a choice.
    """
    if knob in cfg and "sharing" not in cfg:
        return 1
    cfg.define_knob("sharing", [1, 2, 4, 8, 16, 32])
    cfg.multi_filter(lambda c: c["sharing"].val <= c[knob].size[-1])
    cfg.complete(lambda recorded: {"sharing": OtherOptionEntity(1), **recorded})
    sharing: int = cfg["sharing"].val
    return sharing


def share_sum(
    cfg: TemplateConfig,
    s: te.Schedule,
    total: te.Tensor,
    knobs: Sequence[str],
    sharing: int,
    tag: str,
    interleaved: bool = False,
) -> tuple[te.Tensor, list[te.IterVar], list[te.IterVar]]:
    """Split a sum into slices, of each of which several threads may add up parts.

    Args:
        cfg: the configuration.
        s: the schedule.
        total: a sum in registers.
        knobs: how each axis of the reduction is split; threads share slices of the first.
        sharing: threads that share each sum.
        tag: of these threads.
        interleaved: whether neighbouring threads add up neighbours, or runs.

    Returns:
        What adds up, and its loops over slices and in a slice.
    """
    axes = s[total].op.reduce_axis
    outer, inner = map(list, tile_axes(cfg, s, total, dict(zip(knobs, axes, strict=True))))
    if sharing == 1:
        return total, outer, inner
    if interleaved:
        _, mine = s[total].split(inner[0], factor=sharing)
    else:
        mine, _ = s[total].split(inner[0], nparts=sharing)
    part = s.rfactor(total, mine)
    s[part].set_scope("local")
    s[total].bind(s[total].op.reduce_axis[0], te.thread_axis(tag))
    s[part].bind(s[part].op.axis[0], te.thread_axis(tag))
    left = [each for each in s[part].leaf_iter_vars if each not in s[part].op.axis]
    return part, left[0::2], left[1::2]


def on_threads(
    cfg: TemplateConfig, s: te.Schedule, tensor: te.Tensor, knobs: Sequence[str],
    tiled: Sequence[te.IterVar] = (), threads_of: str = "",
) -> Threads:  # fmt: skip
    """Tile the last axes of a tensor, a knob each: blocks, virtual threads, threads, own part.

    ``tiled`` are other axes to tile instead of the last ones, and ``threads_of`` the letters of
    their threads instead of the last of x, y, z.

    for n: for y: for x:  ->  blockIdx.y = n, y.0: blockIdx.x = x.0:
                                vthread = y.1: vthread = x.1:
                                  threadIdx.y = y.2: threadIdx.x = x.2:
                                    for y.3: for x.3:
    """
    stage, letters = s[tensor], "zyx"[-len(knobs) :]
    axes = list(stage.op.axis)
    split = list(tiled) or axes[-len(knobs) :]
    whole = [axis for axis in axes if not any(axis is each for each in split)]
    blocks, virtual, threads, own = tile_axes(cfg, s, tensor, dict(zip(knobs, split, strict=True)))
    stage.reorder(*whole, *blocks, *virtual, *threads, *own)
    first = stage.fuse(*whole, blocks[0])
    _bind(stage, [first, *blocks[1:]], [f"blockIdx.{letter}" for letter in letters])
    _bind(stage, virtual, ["vthread"] * len(virtual))
    tags = [f"threadIdx.{letter}" for letter in threads_of or letters]
    sizes, spare = [cfg[knob].size[2] for knob in knobs], len(knobs) - len(tags) + 1
    threads = (stage.fuse(*threads[:spare]), *threads[spare:])
    _bind(stage, threads, tags)
    extents = list(zip(tags, [math.prod(sizes[:spare]), *sizes[spare:]], strict=True))
    return Threads(first, blocks[-1], threads[-1], extents)


def _bind(stage: te.Stage, axes: Iterable[te.IterVar], tags: Iterable[str]) -> None:
    for axis, tag in zip(axes, tags, strict=True):
        stage.bind(axis, te.thread_axis(tag))


def fetch_together(stage: te.Stage, threads: Sequence[tuple[str, int]], vector: int = 1) -> None:
    """Let all threads of a block fill a shared stage: innermost ``vector`` elements at a time.

    ``threads`` lists thread tags with their extents, slowest first.
    """
    fused = stage.fuse(*stage.op.axis)
    if vector > 1:
        fused, lane = stage.split(fused, factor=vector)
        stage.vectorize(lane)
    for tag, extent in reversed(threads):
        fused, mine = stage.split(fused, factor=extent)
        stage.bind(mine, te.thread_axis(tag))


def unroll(cfg: TemplateConfig, stage: te.Stage, axis: te.IterVar) -> None:
    """Let the tuner choose how far the loops inside ``axis`` are unrolled."""
    stage.pragma(axis, "auto_unroll_max_step", cfg["auto_unroll_max_step"].val)
    stage.pragma(axis, "unroll_explicit", cfg["unroll_explicit"].val)


def define_unroll(cfg: TemplateConfig) -> None:
    """Declare the knobs that `unroll` reads."""
    cfg.define_knob("auto_unroll_max_step", [0, 512, 1500])
    cfg.define_knob("unroll_explicit", [0, 1])
