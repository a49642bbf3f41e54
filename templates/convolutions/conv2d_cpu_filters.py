"""Untuned choices for convolutions on a CPU whose vectors hold filters."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from math import gcd, inf

from autotune import Target

from .. import cpu_tiles
from .conv2d_cpu_space import MOST_SUMS, holds_border, is_ahead, is_copied, met_bytes, sums_bytes
from .conv2d_shape import Conv2d

# Filters that are few; bytes of an image that stays in the L2 cache; channels that are read in
# place at a time of a larger one: the hardware prefetcher follows so many streams.
FEWEST, _NEAR, STREAMS = 32, 1 << 21, 16
# Bytes of its input that a task copies.
MET = 1 << 18
# Pixels that are too few to amortise transposing filters; tasks may then read more.
_FEW = 64
# Channels that are read in place at a time: with more, cache lines evict each other, which does
# not matter where vectors are issued in halves.
READ = 64
# Bytes of filters that are transposed at a time, untuned: they stay in the L2 cache for long
# vectors, in L1 for short ones.
_TRANSPOSED, _TRANSPOSED_SHORT = 160 << 10, 32 << 10
# Bytes of which planes are multiples whose channels share a quarter of the sets of L1, or less.
_ALIAS = 1024
# Bytes of a way of the L1 cache.
_PAGE = 4096
# Costs relative to a multiply-add: of an element that another core transposed; of the beginning of
# a run of results, which the hardware prefetcher does not foresee. Bytes of results in L2.
_FROM_ANOTHER, _RUN, _SMALL = 30, 800, 1 << 20
# Products of a sum that a part of the channels has, at the least; bytes that an output row reads
# of it, and lines that a task should have.
_DEEP, _ROW, TALL = 96, 24 << 10, 8


def of_filters(shape: Conv2d, options: Mapping[str, list[int]], target: Target) -> dict[str, int]:
    """Return the choice with vectors over output channels."""
    unit = cpu_tiles.vector_unit(target)
    rows, vectors, lanes = cpu_tiles.line_tile(
        unit, shape.ow, shape.co, shape.ci * shape.taps, options["rows"]
    )
    width = vectors * lanes
    in_place = is_copied(shape, lanes) and holds_border(shape, rows) and not unit.halves
    copies = is_copied(shape, lanes) and not in_place
    transposed = _TRANSPOSED if lanes > 8 else _TRANSPOSED_SHORT
    some = shape.ci if copies or unit.halves else READ
    near = [
        c
        for c in options["channels"]
        if min(c, shape.ci) < 2 * some and 4 * width * c * shape.taps <= transposed
    ] or options["channels"][:1]
    if in_place:
        channels = _channels_in_place(shape, near, width, target)
    else:
        channels = _copied_channels(shape, near) if copies else near[-1]
    blocks = [b for b in options["block_m"] if b >= shape.co or b % width == 0]
    block_m, lines = cpu_tiles.tasks(
        target, [b for b in blocks if b >= rows] or blocks,
        _lines(shape, options, channels, copies, target), (shape.co, shape.oh), 1,
        _copying(shape, channels, lanes, target), shape.n,
    )  # fmt: skip
    tile = {"rows": rows, "vectors": vectors, "lanes": lanes, "panels": 1, "tail": 0, "across": 1}
    here = {"block_m": block_m, "channels": channels, "lines": lines, "in_place": int(in_place)}
    return tile | here


def _lines(
    shape: Conv2d, options: Mapping[str, list[int]], channels: int, copies: bool, target: Target
) -> list[int]:
    """Return how many lines a task may have."""
    # What is not copied is read in place and only needs to stay in cache.
    met = MET if copies else 4 * MET
    tall = [
        n
        for n in options["lines"][1:]
        if met_bytes(shape, n, channels) <= met
        or (n * shape.ow <= _FEW and met_bytes(shape, n, channels) <= 4 * MET)
    ] or options["lines"][1:2]
    if not copies and _fetches(shape) and (is_alias(shape) or target.limits.sm_count > 1):
        # The next line is evicted if all channels of this one are read before, or it is prefetched
        # for another core.
        tall = [n for n in tall if n >= TALL] or tall[-1:]
    return tall


def _fetches(shape: Conv2d) -> bool:
    """Return whether kernels prefetch pixels of the next line, if lines are read in place."""
    return shape.taps == 1 or shape.window.reach[0] < shape.stride[0]


def _copying(
    shape: Conv2d, channels: int, lanes: int, target: Target
) -> Callable[[int, int], float]:
    """Return the time of copies of a task of so many filters and lines, see `cpu_tiles.tasks`.

    Filters are transposed once or for each group of rows, rows copied for each block.
    """
    (sy, sx), pixels, depth = shape.stride, shape.oh * shape.ow, shape.ci * shape.taps
    fresh, reach = sy * sx / shape.taps, shape.window.reach[0]
    # Each core reads once what others have transposed.
    shared = _FROM_ANOTHER * (target.limits.sm_count - 1)
    is_small = 4 * shape.co * pixels <= _SMALL
    run = 0 if is_small else _RUN * lanes / 16 / depth
    # Of each filter, in a cache line of which two cores write.
    border = cpu_tiles.BORDER / depth if target.limits.sm_count > 1 else 0
    # The first line of a task, which no other one prefetches, is waited for.
    waiting = float(_fetches(shape))

    def copying(high: int, tall: int) -> float:
        if sums_bytes(shape, tall, high, channels) > MOST_SUMS:
            return inf
        is_shared = is_ahead(shape, tall)
        transposing = (10 + shared) / (shape.n * pixels) if is_shared else 10 / (tall * shape.ow)
        writing = (run + border) / (tall * shape.ow)
        writing += waiting / tall
        return transposing + writing + 8 * fresh * (1 + (reach - sy) / (tall * sy)) / high

    return copying


def _copied_channels(shape: Conv2d, options: list[int]) -> int:
    """Return how many channels are copied at a time, where vectors hold filters.

    What an output row reads of them stays in the L1 cache for its next tile, and the lines of a
    task, which share what they read, in L2.
    """
    deep = [c for c in options if c * shape.taps >= _DEEP] or options[-1:]
    shared = min(TALL, shape.oh)
    fits = (
        c for c in deep if met_bytes(shape, 1, c) <= _ROW and met_bytes(shape, shared, c) <= MET
    )
    return max(fits, default=min(deep))


def _channels_in_place(shape: Conv2d, options: list[int], width: int, target: Target) -> int:
    """Return how many channels are read in place at a time, where vectors hold filters.

    What an output row reads of them stays in the L1 cache for the next row, with their filters, in
    the part of the sets that rows of all channels have together. A few filters wait for larger
    images, of which the hardware prefetcher follows so many streams.
    """
    is_waiting = shape.co <= FEWEST and not is_near(shape)
    options = [c for c in options if c <= STREAMS] or options[:1] if is_waiting else options
    deep = [c for c in options if c * shape.taps >= _DEEP] or options[-1:]
    of_sets = min(4 * shape.window.reach[0] * shape.w / gcd(4 * shape.h * shape.w, _PAGE), 1)
    first = cpu_tiles.rows_together(target) * _PAGE * of_sets

    def held(channels: int) -> int:
        filters = width * min(channels, shape.ci) * shape.taps
        return met_bytes(shape, 1, channels) + 4 * filters

    return max((c for c in deep if held(c) <= first), default=min(deep))


def is_alias(shape: Conv2d) -> bool:
    """Return whether pixels of all channels share a few sets of the L1 cache."""
    return 4 * shape.h * shape.w % _ALIAS == 0


def is_near(shape: Conv2d) -> bool:
    """Return whether an image stays in the L2 cache."""
    return 4 * shape.ci * shape.h * shape.w <= _NEAR
