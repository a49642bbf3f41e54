"""Choices for convolutions on a CPU that were never tuned."""

from __future__ import annotations

from collections.abc import Mapping

from autotune import Target

from .. import common, cpu_tiles
from .conv2d_cpu_filters import FEWEST, MET, READ, STREAMS, TALL, is_alias, is_near, of_filters
from .conv2d_cpu_space import (
    MOST_COPIED,
    STREAMED,
    candidates,
    copied_bytes,
    is_plain,
    is_whole,
    met_bytes,
    pitch,
)
from .conv2d_shape import Conv2d

# Cost of packing an element, and of a multiply-add, relative to transposing an element.
_PACKING_COST, _PRODUCT_COST = 10, 0.16
# Filters that are too few for panels beyond the L1 cache, and a part of that cache; filters that
# read images beyond L2 in place.
_FEW_FILTERS, _FIRST_CACHE, _FEWEST_FAR = 64, 16 << 10, 24
# Channels that are read in place at a time where lines are skipped: the hardware prefetcher does
# not follow so many streams.
_SKIPPING = 64
# Channels of 1x1 layers that are packed at a time, at most.
_UNFOLDED = 256
# Panels of short vectors into which every second pixel is gathered.
_GATHERED = 4
# Channels whose lines are copied at a time for a few filters; bytes of what an output row reads of
# them; cost of the copy of an element, relative to a multiply-add.
_LINES_DEEP, _LINES_ROW, _COPYING = 64, 64 << 10, 14
# Cost of vectors of filters that read in place, relative to those that copy; of half as long ones.
_IN_PLACE, _IN_PLACE_HALF = 0.91, 0.77
# Pixels of lines that are packed while others are multiplied, at the least, also where those of
# the channels share sets of L1; channels that are packed at a time.
_LONG, _LONG_ALIAS, _PACKED_DEEP = 96, 80, 128
# Products of a sum up to which short vectors make it in less time than lines are copied.
_BRIEF = 32


def default_choice(shape: Conv2d, target: Target) -> dict[str, int]:
    """Return a good guess for a shape that was never tuned."""
    options, shape = candidates(shape), shape.one_group
    pixels = shape.oh * shape.ow
    unit = cpu_tiles.vector_unit(target)
    if _streams(shape, unit):
        return _streamed(shape, options, target)
    if _skips_in_place(shape, unit):
        return of_filters(shape, options, target)
    if is_plain(shape) and _reads_in_place(shape, unit):
        return _in_place(shape, options, target)
    if _fills_lanes(shape, unit):
        return _of_few_filters(shape, options, target)
    if _transposes_filters(shape, unit):
        return of_filters(shape, options, target)
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
    is_few = is_whole(shape) and shape.co <= _FEW_FILTERS and not is_near(shape)
    is_whole_depth = is_one and not is_few and not _is_gathered(shape)
    choice["channels"] = deepest if is_whole_depth else min(deepest, _UNFOLDED // 2)
    if unit.floats <= 8 and _skips_im2col(shape):
        return choice | _of_lines(shape, options, choice, target)
    left = cpu_tiles.tail_of(pixels, width, lanes)
    panelled, packed = pixels - left, 4 * deepest * shape.taps
    panels = [p for p in options["panels"] if p == 1 or p * width < 2 * panelled]
    if unit.floats <= 8 or (is_far and is_whole(shape) and shape.co <= _FEW_FILTERS):
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
    """Return how many panels, of so many bytes, are packed at a time, at most.

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
    reach = shape.window.reach[0]
    fits = [n for n in options["lines"][1:] if copied_bytes(shape, tile["channels"], n) <= MET]
    block_m, lines = cpu_tiles.tasks(
        target, blocks, fits or [1], (shape.co, shape.oh), 1,
        lambda high, tall: 4 / high + (reach - 1) / (high * tall) + 0.1 / tall, shape.n,
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

    Short vectors are mostly unaligned there, which pays only where memory is slower. Panels of an
    image beyond the L2 cache are prefetched while more filters are multiplied.
    """
    if is_whole(shape) and not is_near(shape):
        return shape.co <= (FEWEST if unit.halves else _FEWEST_FAR)
    return shape.co <= FEWEST and (unit.floats > 8 or not is_near(shape))


def _skips_in_place(shape: Conv2d, unit: cpu_tiles.VectorUnit) -> bool:
    """Return whether a few filters in vectors read lines in place, which a stride skips.

    They wait for memory, so the lines of a part of the channels are prefetched while the ones
    before are multiplied. Where lines of a few sets of the cache evict each other, short vectors
    meet each again for the next filters, and less than two long ones wait for it. Vectors that are
    issued in halves take twice as long, which idle lanes do not repay.
    """
    if not _is_gathered(shape) or shape.ci < READ:
        return False
    if is_near(shape):
        return False
    if unit.halves:
        return shape.co <= 2 * FEWEST and 4 * (-shape.co % unit.floats) <= shape.co
    if unit.floats > 8:
        return (FEWEST // 2 if is_alias(shape) else 0) < shape.co <= 2 * FEWEST
    return shape.co <= FEWEST and not is_alias(shape)


def _streams(shape: Conv2d, unit: cpu_tiles.VectorUnit) -> bool:
    """Return whether lines are packed in the order of memory while others are multiplied.

    The hardware prefetcher foresees the lines that a stride skips where they are long, and waits
    for fewer of them where those of several channels evict each other.
    """
    if not _is_gathered(shape) or shape.stride[1] != 2 or shape.co > 2 * FEWEST:
        return False
    if is_near(shape) or unit.halves:
        return False
    return shape.w >= (_LONG_ALIAS if is_alias(shape) else _LONG)


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


def _fills_lanes(shape: Conv2d, unit: cpu_tiles.VectorUnit) -> bool:
    """Return whether a copy of lines takes less than lanes that vectors of filters leave idle."""
    if shape.taps == 1 or shape.co > FEWEST or 4 * shape.ow < 3 * pitch(shape):
        return False
    (sy, sx), reach = shape.stride, shape.window.reach[0]
    copying = _COPYING * sy * sx / shape.taps * (1 + (reach - sy) / (TALL * sy))
    whole = common.ceil_div(shape.co, unit.floats) * unit.floats
    is_half = unit.floats > 8 and 2 * shape.co <= unit.floats
    reading = 1 if unit.halves else _IN_PLACE_HALF if is_half else _IN_PLACE
    return shape.co * pitch(shape) / shape.ow + copying <= whole * reading


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
    streams = STREAMS if is_whole(shape) else _SKIPPING
    some = shape.ci if is_near(shape) else min(streams, shape.ci)
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
    if is_short and depth <= _BRIEF and shape.co > FEWEST and _skips_im2col(shape):
        return True
    spared: float = depth * pixels
    if shape.taps > 1 and shape.ow >= 7 if is_short else shape.ow >= 4:
        left_out = shape.taps * pixels - _products(shape)
        spared = _PACKING_COST * spared + _PRODUCT_COST * shape.co * shape.ci * left_out
    return spared > shape.co * (pixels + depth) and met_bytes(shape, 1, 1) <= MOST_COPIED


def _products(shape: Conv2d) -> int:
    """Return the products of a channel of all pixels, without those with the padding."""
    (sy, sx), (py, px), (dy, dx) = shape.stride, shape.padding[:2], shape.dilation

    def met(taps: range, pixels: int, stride: int, padding: int, extent: int) -> int:
        places = (at * stride + tap - padding for at in range(pixels) for tap in taps)
        return sum(0 <= place < extent for place in places)

    (ry, rx), (h, w) = shape.window.reach, (shape.h, shape.w)
    rows = met(range(0, ry, dy), shape.oh, sy, py, h)
    return rows * met(range(0, rx, dx), shape.ow, sx, px, w)


def _skips_im2col(shape: Conv2d) -> bool:
    """Return whether rows without im2col pay: few useless sums, and much reuse among taps.

    Only for short vectors: those of a whole cache line are nearly all unaligned here, and aligned
    in packed panels.
    """
    few = 20 * (pitch(shape) - shape.ow) <= shape.ow
    return few and shape.taps > 1 and (shape.stride == (1, 1) or shape.ci <= 4)
