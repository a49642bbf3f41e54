"""Choices for convolutions on a CPU that were never tuned."""

from __future__ import annotations

from collections.abc import Mapping
from math import gcd, inf

from autotune import Target

from .. import common, cpu_tiles
from .conv2d_cpu_space import (
    MOST_COPIED,
    MOST_SUMS,
    STREAMED,
    candidates,
    copied_bytes,
    holds_border,
    is_ahead,
    is_copied,
    is_plain,
    is_whole,
    met_bytes,
    pitch,
    sums_bytes,
)
from .conv2d_shape import Conv2d

# Bytes of its input that a task copies.
_MET = 1 << 18
# Pixels that are too few to amortise transposing filters; tasks may then read more.
_FEW = 64
# Cost of packing an element, and of a multiply-add, relative to transposing an element.
_PACKING_COST, _PRODUCT_COST = 10, 0.16
# Filters that are too few for panels beyond the L1 cache, and a part of that cache.
_FEW_FILTERS, _FIRST_CACHE = 64, 16 << 10
# Filters up to which images are read in place, or lines copied; bytes of an image that stays in
# the L2 cache; channels that are read in place at a time of a larger one: the hardware prefetcher
# follows so many streams or, where lines are skipped, too many to fetch these.
_FEWEST, _NEAR, _STREAMS, _SKIPPING = 32, 1 << 21, 16, 64
# Channels of 1x1 layers that are packed at a time, at most.
_UNFOLDED = 256
# Panels of short vectors into which every second pixel is gathered.
_GATHERED = 4
# Channels whose lines are copied at a time for a few filters; bytes of what an output row reads of
# them; cost of the copy of an element, relative to a multiply-add.
_LINES_DEEP, _LINES_ROW, _COPYING = 64, 64 << 10, 14
# Channels that are read in place at a time: with more, cache lines evict each other, which does
# not matter where vectors are issued in halves.
_READ = 64
# Pixels of lines that are packed while others are multiplied, at the least, also where those of
# the channels share sets of L1; channels that are packed at a time.
_LONG, _LONG_ALIAS, _PACKED_DEEP = 96, 80, 128
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
# Products of a sum up to which short vectors make it in less time than lines are copied.
_BRIEF = 32
# Products of a sum that a part of the channels has, at the least; bytes that an output row reads
# of it, and lines that a task should have.
_DEEP, _ROW, _TALL = 96, 24 << 10, 8


def default_choice(shape: Conv2d, target: Target) -> dict[str, int]:
    """Return a good guess for a shape that was never tuned."""
    options, pixels = candidates(shape), shape.oh * shape.ow
    unit = cpu_tiles.vector_unit(target)
    if _streams(shape, unit):
        return _streamed(shape, options, target)
    if _skips_in_place(shape, unit):
        return _of_filters(shape, options, target)
    if is_plain(shape) and _reads_in_place(shape, unit):
        return _in_place(shape, options, target)
    if _fills_lanes(shape, unit):
        return _of_few_filters(shape, options, target)
    if _transposes_filters(shape, unit):
        return _of_filters(shape, options, target)
    is_far = unit.floats > 8 and not unit.halves
    high = range(1, cpu_tiles.HIGHEST + 1) if is_far else cpu_tiles.ROWS
    rows, vectors, lanes = cpu_tiles.tile(
        unit, shape.co, pixels, tails=True, narrow=True, is_far=is_far, rows_of_tile=high
    )
    width = vectors * lanes
    blocks = [b for b in options["block_m"] if b >= rows] or [max(options["block_m"])]
    choice = {"rows": rows, "vectors": vectors, "lanes": lanes, "across": 0, "in_place": 0}
    choice |= {"panels": 1, "tail": 0, "lines": 0}
    near = [c for c in options["channels"] if c <= min(_UNFOLDED, 576 // shape.taps)]
    deepest = max(near, default=1)
    # Where several tasks prefetch what is packed next, shorter parts stay in the cache until then.
    is_one = pixels <= max(options["panels"]) * width
    is_whole_depth = is_one and not _is_gathered(shape)
    choice["channels"] = deepest if is_whole_depth else min(deepest, _UNFOLDED // 2)
    if unit.floats <= 8 and _skips_im2col(shape):
        return choice | _of_lines(shape, options, choice, target)
    left = cpu_tiles.tail_of(pixels, width, lanes)
    panelled, packed = pixels - left, 4 * deepest * shape.taps
    panels = [p for p in options["panels"] if p == 1 or p * width < 2 * panelled]
    if unit.floats <= 8:
        each = 4 * width * min(choice["channels"], shape.ci) * shape.taps
        panels = [p for p in panels if p <= _most_panels(shape, each)]
    border = cpu_tiles.BORDER / (min(choice["channels"], shape.ci) * shape.taps)
    # Each element is packed again for each block, and weights are reloaded for each group.
    block_m, together = cpu_tiles.tasks(
        target, blocks, panels, (shape.co, panelled), width,
        lambda high, wide: 16 / high + (8 + border) / wide + wide * packed / 8e6, shape.n,
    )  # fmt: skip
    return choice | {"block_m": block_m, "panels": together, "tail": int(left > 0)}


def _most_panels(shape: Conv2d, each: int) -> int:
    """Return how many panels of short vectors, of so many bytes, are packed at a time, at most.

    Few filters read panels a few times only; every second pixel is gathered by whole lines.
    """
    if shape.stride[1] > 1:
        return _GATHERED if _is_gathered(shape) else max(candidates(shape)["panels"])
    few = shape.co <= _FEW_FILTERS
    return max(_FIRST_CACHE // each, 1) if few else max(candidates(shape)["panels"])


def _is_gathered(shape: Conv2d) -> bool:
    return is_plain(shape) and not is_whole(shape)


def _of_lines(
    shape: Conv2d, options: Mapping[str, list[int]], tile: Mapping[str, int], target: Target
) -> dict[str, int]:  # fmt: skip
    """Return block and lines of a kernel that copies lines without im2col."""
    blocks = [b for b in options["block_m"] if b >= tile["rows"]] or [max(options["block_m"])]
    fits = [n for n in options["lines"][1:] if copied_bytes(shape, tile["channels"], n) <= _MET]
    block_m, lines = cpu_tiles.tasks(
        target, blocks, fits or [1], (shape.co, shape.oh), 1,
        lambda high, tall: 4 / high + (shape.kh - 1) / (high * tall) + 0.1 / tall, shape.n,
    )  # fmt: skip
    return {"block_m": block_m, "lines": lines}


def _of_few_filters(
    shape: Conv2d, options: Mapping[str, list[int]], target: Target
) -> dict[str, int]:
    """Return the choice with lines of pixels in vectors, of a few filters."""
    pixels = shape.oh * shape.ow
    is_wide = pixels >= max(cpu_tiles.VECTORS) * max(cpu_tiles.LANES)
    columns = shape.oh * pitch(shape) if is_wide else pixels
    rows, vectors, lanes = cpu_tiles.tile(cpu_tiles.vector_unit(target), shape.co, columns)
    some = (
        c for c in options["channels"] if c <= _LINES_DEEP and met_bytes(shape, 1, c) <= _LINES_ROW
    )
    choice = {"rows": rows, "vectors": vectors, "lanes": lanes, "across": 0, "in_place": 0}
    choice |= {"panels": 1, "tail": 0, "channels": max(some, default=1)}
    return choice | _of_lines(shape, options, choice, target)


def _reads_in_place(shape: Conv2d, unit: cpu_tiles.VectorUnit) -> bool:
    """Return whether packing takes longer than reading an image in place.

    Short vectors are mostly unaligned there, which pays only where memory is slower.
    """
    return shape.co <= _FEWEST and (unit.floats > 8 or not _is_near(shape))


def _skips_in_place(shape: Conv2d, unit: cpu_tiles.VectorUnit) -> bool:
    """Return whether a few filters in vectors read lines in place, which a stride skips.

    They wait for memory, so the lines of a part of the channels are prefetched while the ones
    before are multiplied. Where lines of a few sets of the cache evict each other, short vectors
    meet each again for the next filters, and less than two long ones wait for it.
    """
    if not _is_gathered(shape) or shape.ci < _READ:
        return False
    if _is_near(shape) or unit.halves:
        return False
    if unit.floats > 8:
        return (_FEWEST // 2 if _is_alias(shape) else 0) < shape.co <= 2 * _FEWEST
    return shape.co <= _FEWEST and not _is_alias(shape)


def _streams(shape: Conv2d, unit: cpu_tiles.VectorUnit) -> bool:
    """Return whether lines are packed in the order of memory while others are multiplied.

    The hardware prefetcher foresees the lines that a stride skips where they are long, and waits
    for fewer of them where those of several channels evict each other.
    """
    if not _is_gathered(shape) or shape.stride[1] != 2 or shape.co > 2 * _FEWEST:
        return False
    if _is_near(shape) or unit.halves:
        return False
    return shape.w >= (_LONG_ALIAS if _is_alias(shape) else _LONG)


def _streamed(shape: Conv2d, options: Mapping[str, list[int]], target: Target) -> dict[str, int]:
    """Return the choice that packs lines while others are multiplied, all filters at once."""
    unit = cpu_tiles.vector_unit(target)
    rows, vectors, lanes = cpu_tiles.tile(unit, shape.co, shape.ow, narrow=True)
    blocks = [b for b in options["block_m"] if b >= shape.co] or [max(options["block_m"])]
    channels = max(c for c in options["channels"] if c <= _PACKED_DEEP)
    # A task has packed nothing when it begins.
    first = min(channels / shape.ci, 1)
    block_m, lines = cpu_tiles.tasks(
        target, blocks[:1], options["lines"][1:], (shape.co, shape.oh), 1,
        lambda _, tall: first / tall, shape.n,
    )  # fmt: skip
    tile = {"rows": rows, "vectors": vectors, "lanes": lanes, "across": 0, "tail": 0, "panels": 1}
    here = {"block_m": block_m, "channels": channels, "lines": lines, "in_place": STREAMED}
    return tile | here


def _is_alias(shape: Conv2d) -> bool:
    """Return whether pixels of all channels share a few sets of the L1 cache."""
    return 4 * shape.h * shape.w % _ALIAS == 0


def _is_near(shape: Conv2d) -> bool:
    return 4 * shape.ci * shape.h * shape.w <= _NEAR


def _fills_lanes(shape: Conv2d, unit: cpu_tiles.VectorUnit) -> bool:
    """Return whether a copy of lines takes less than lanes that vectors of filters leave idle."""
    if shape.taps == 1 or shape.co > _FEWEST or 4 * shape.ow < 3 * pitch(shape):
        return False
    sy, sx = shape.stride
    copying = _COPYING * sy * sx / shape.taps * (1 + (shape.kh - sy) / (_TALL * sy))
    whole = common.ceil_div(shape.co, unit.floats) * unit.floats
    return shape.co * pitch(shape) / shape.ow + copying <= whole


def _in_place(shape: Conv2d, options: Mapping[str, list[int]], target: Target) -> dict[str, int]:
    """Return the choice that reads images in place, all filters at once.

    Images in the L2 cache are read panel by panel, larger ones some channels at a time, in runs
    that are as long as possible.
    """
    pixels = shape.oh * shape.ow
    # No panel extends beyond its row.
    row = pixels if is_whole(shape) else shape.ow
    rows, vectors, lanes = cpu_tiles.tile(
        cpu_tiles.vector_unit(target), shape.co, row, narrow=True, is_far=True
    )
    width = common.ceil_div(row, common.ceil_div(row, vectors * lanes))
    block_m = min((b for b in options["block_m"] if b >= shape.co), default=rows)
    panels = [p for p in options["panels"] if p == 1 or p * vectors * lanes < 2 * pixels]
    deepest = max(options["channels"])
    streams = _STREAMS if is_whole(shape) else _SKIPPING
    some = shape.ci if _is_near(shape) else min(streams, shape.ci)
    channels = min(c for c in options["channels"] if c >= min(some, deepest))
    border = cpu_tiles.BORDER / some
    _, together = cpu_tiles.tasks(
        target, [block_m], panels, (shape.co, pixels), width, lambda _, wide: (1 + border) / wide,
        shape.n,
    )  # fmt: skip
    tile = {"rows": rows, "vectors": vectors, "lanes": lanes, "across": 0, "tail": 0, "lines": 0}
    here = {"block_m": block_m, "panels": together, "channels": channels, "in_place": 1}
    return tile | here


def _transposes_filters(shape: Conv2d, unit: cpu_tiles.VectorUnit) -> bool:
    """Return whether transposing filters and sums costs less than packing panels.

    Where tiles do not divide a row its remainder is slower with vectors of filters, but products
    with the padding are skipped. Packing 1x1 layers is so cheap that vectors are over pixels,
    except where vectors are issued in halves, unless filters would leave lanes idle.
    """
    pixels, depth = shape.oh * shape.ow, shape.ci * shape.taps
    is_short, idle = unit.floats <= 8, -shape.co % unit.floats
    if shape.taps == 1 and (not unit.halves or (is_whole(shape) and 4 * idle > shape.co)):
        return False
    if is_short and depth <= _BRIEF and shape.co > _FEWEST and _skips_im2col(shape):
        return True
    spared: float = depth * pixels
    if shape.taps > 1 and shape.ow >= 7 if is_short else shape.ow >= 4:
        left_out = shape.taps * pixels - _products(shape)
        spared = _PACKING_COST * spared + _PRODUCT_COST * shape.co * shape.ci * left_out
    return spared > shape.co * (pixels + depth) and met_bytes(shape, 1, 1) <= MOST_COPIED


def _products(shape: Conv2d) -> int:
    """Return the products of a channel of all pixels, without those with the padding."""
    (sy, sx), (py, px) = shape.stride, shape.padding[:2]

    def met(taps: int, pixels: int, stride: int, padding: int, extent: int) -> int:
        places = (at * stride + tap - padding for at in range(pixels) for tap in range(taps))
        return sum(0 <= place < extent for place in places)

    return met(shape.kh, shape.oh, sy, py, shape.h) * met(shape.kw, shape.ow, sx, px, shape.w)


def _of_filters(shape: Conv2d, options: Mapping[str, list[int]], target: Target) -> dict[str, int]:
    """Return the choice with vectors over output channels."""
    unit = cpu_tiles.vector_unit(target)
    rows, vectors, lanes = cpu_tiles.line_tile(
        unit, shape.ow, shape.co, shape.ci * shape.taps, options["rows"]
    )
    width, (sy, sx) = vectors * lanes, shape.stride
    in_place = is_copied(shape, lanes) and holds_border(shape, rows) and not unit.halves
    copies = is_copied(shape, lanes) and not in_place
    transposed = _TRANSPOSED if lanes > 8 else _TRANSPOSED_SHORT
    some = shape.ci if copies or unit.halves else _READ
    near = [
        c
        for c in options["channels"]
        if min(c, shape.ci) < 2 * some and 4 * width * c * shape.taps <= transposed
    ] or options["channels"][:1]
    blocks = [b for b in options["block_m"] if b >= shape.co or b % width == 0]
    # What is not copied is read in place and only needs to stay in cache.
    met = _MET if copies else 4 * _MET
    channels = _copied_channels(shape, near) if copies else near[-1]
    if in_place:
        channels = _channels_in_place(shape, near, width, target)
    tall = [
        n
        for n in options["lines"][1:]
        if met_bytes(shape, n, channels) <= met
        or (n * shape.ow <= _FEW and met_bytes(shape, n, channels) <= 4 * _MET)
    ] or options["lines"][1:2]
    if not copies and (_is_alias(shape) or target.limits.sm_count > 1):
        # The next line is evicted if all channels of this one are read before, or it is prefetched
        # for another core.
        tall = [n for n in tall if n >= _TALL] or tall[-1:]
    # Filters are transposed once or for each group of rows, rows copied for each block.
    pixels = shape.oh * shape.ow
    fresh = sy * sx / shape.taps
    # Each core reads once what others have transposed.
    shared = _FROM_ANOTHER * (target.limits.sm_count - 1)
    is_small = 4 * shape.co * pixels <= _SMALL
    run = 0 if is_small else _RUN * lanes / 16 / (shape.ci * shape.taps)
    # Of each filter, in a cache line of which two cores write.
    border = cpu_tiles.BORDER / (shape.ci * shape.taps) if target.limits.sm_count > 1 else 0

    def copying(high: int, tall: int) -> float:
        if sums_bytes(shape, tall, high, channels) > MOST_SUMS:
            return inf
        is_shared = is_ahead(shape, tall)
        transposing = (10 + shared) / (shape.n * pixels) if is_shared else 10 / (tall * shape.ow)
        writing = (run + border) / (tall * shape.ow)
        return transposing + writing + 8 * fresh * (1 + (shape.kh - sy) / (tall * sy)) / high

    block_m, lines = cpu_tiles.tasks(
        target, [b for b in blocks if b >= rows] or blocks, tall, (shape.co, shape.oh), 1, copying,
        shape.n,
    )  # fmt: skip
    return {
        "rows": rows,
        "vectors": vectors,
        "lanes": lanes,
        "block_m": block_m,
        "panels": 1,
        "channels": channels,
        "tail": 0,
        "lines": lines,
        "across": 1,
        "in_place": int(in_place),
    }


def _copied_channels(shape: Conv2d, options: list[int]) -> int:
    """Return how many channels are copied at a time, where vectors hold filters.

    What an output row reads of them stays in the L1 cache for its next tile, and the lines of a
    task, which share what they read, in L2.
    """
    deep = [c for c in options if c * shape.taps >= _DEEP] or options[-1:]
    shared = min(_TALL, shape.oh)
    fits = (
        c for c in deep if met_bytes(shape, 1, c) <= _ROW and met_bytes(shape, shared, c) <= _MET
    )
    return max(fits, default=min(deep))


def _channels_in_place(shape: Conv2d, options: list[int], width: int, target: Target) -> int:
    """Return how many channels are read in place at a time, where vectors hold filters.

    What an output row reads of them stays in the L1 cache for the next row, with their filters, in
    the part of the sets that rows of all channels have together.
    """
    deep = [c for c in options if c * shape.taps >= _DEEP] or options[-1:]
    of_sets = min(4 * shape.kh * shape.w / gcd(4 * shape.h * shape.w, _PAGE), 1)
    first = cpu_tiles.rows_together(target) * _PAGE * of_sets

    def held(channels: int) -> int:
        filters = width * min(channels, shape.ci) * shape.taps
        return met_bytes(shape, 1, channels) + 4 * filters

    return max((c for c in deep if held(c) <= first), default=min(deep))


def _skips_im2col(shape: Conv2d) -> bool:
    """Return whether rows without im2col pay: few useless sums, and much reuse among taps.

    Only for short vectors: those of a whole cache line are nearly all unaligned here, and aligned
    in packed panels.
    """
    few = 20 * (pitch(shape) - shape.ow) <= shape.ow
    return few and shape.taps > 1 and (shape.stride == (1, 1) or shape.ci <= 4)
