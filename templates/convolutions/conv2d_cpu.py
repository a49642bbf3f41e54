"""Convolution for a CPU, vectorised over pixels or over output channels.

Over pixels: the input of a task is packed into im2col panels, which stay in cache for all filters
(`conv2d_nchw.c`), or is read in place for few 1x1 filters; or its rows are copied without im2col,
and several output rows are computed as one long row (`conv2d_planes.c`). That copies a ninth for
3x3 filters, but computes some useless sums at the ends of rows.

Over output channels (`conv2d_across.c`, as oneDNN does): elements of the input are broadcast, so
im2col is not needed; filters and sums are transposed instead.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from autotune import SourceKernel, Target, call, workspace

from .. import common, cpu_tiles
from .conv2d_shape import Conv2d

# Bytes of its input that a task may copy, and that it copies untuned, where vectors hold filters.
_MOST_COPIED, _MET = 1 << 21, 1 << 18
# Pixels that are too few to amortise transposing filters; tasks may then read more.
_FEW = 64
# Cost of packing an element, and of a multiply-add, relative to transposing an element.
_PACKING_COST, _PRODUCT_COST = 10, 0.16
# Filters that are too few for panels beyond the L1 cache, and a part of that cache.
_FEW_FILTERS, _FIRST_CACHE = 64, 16 << 10
# Filters, and channels (each in a page of its own), up to which 1x1 layers are read in place,
# untuned.
_FEW_IN_PLACE, _PAGES = 32, 512
# Channels of 1x1 layers that are packed at a time, at most.
_UNFOLDED = 256
# Rows that are prefetched with 16 steps at most: few filters would wait for more.
_MOST_FETCHED = 2
# Channels that are read in place at a time: with more, cache lines evict each other, which does
# not matter where vectors are issued in halves.
_READ = 64
# Bytes of filters that are transposed at a time, untuned: they stay in the L2 cache for long
# vectors, in L1 for short ones.
_TRANSPOSED, _TRANSPOSED_SHORT = 160 << 10, 32 << 10
# Bytes of filters that stay in the L2 cache, transposed once for all tasks; of sums that a task
# keeps between its parts of the channels.
_AHEAD, _SUMS = 1 << 20, 1 << 20
# Products of a sum that a part of the channels has, at the least; bytes that an output row reads
# of it, and lines that a task should have.
_DEEP, _ROW, _TALL = 96, 24 << 10, 8


def candidates(shape: Conv2d) -> dict[str, list[int]]:
    """Return the values each knob may take for a shape."""
    return {
        "rows": common.up_to(shape.co, cpu_tiles.ROWS),
        "vectors": list(cpu_tiles.VECTORS),
        "lanes": list(cpu_tiles.LANES),
        "block_m": common.up_to(2 * shape.co, (4, 8, 16, 32, 64, 128, 256, 512)),
        "panels": [1, 2, 4, 8],
        "channels": common.up_to(
            2 * shape.ci, (1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024, 2048)
        ),
        "tail": [0, 1],
        # Output rows of a task without im2col; 0 packs panels.
        "lines": [0, *common.up_to(shape.oh, (1, 2, 4, 7, 8, 14, 16, 28, 56))],
        # Whether vectors are over output channels. A task then has all input channels, whose
        # filters are transposed some channels at a time, and no panels.
        "across": [0, 1],
        "in_place": [0, 1] if _is_whole(shape) else [0],
    }


def _is_whole(shape: Conv2d) -> bool:
    """Return whether it is pointwise with stride 1 and without padding."""
    return shape.taps == 1 and shape.stride == (1, 1) and not any(shape.padding)


def _pitch(shape: Conv2d) -> int:
    """Return the pitch of rows of sums without im2col."""
    return shape.ow + (shape.kw - 1) // shape.stride[1]


def _copied(shape: Conv2d, channels: int, lines: int) -> int:
    """Return the bytes of the planes of a task without im2col."""
    sy, sx = shape.stride
    phases = min(shape.kh, sy) * min(shape.kw, sx)
    held = lines + (shape.kh - 1) // sy
    return 4 * channels * phases * held * _pitch(shape)


def _met(shape: Conv2d, lines: int, channels: int) -> int:
    """Return the input bytes that some output rows read of a part of the channels."""
    sy, sx = shape.stride
    columns = (shape.ow - 1) * sx + shape.kw
    held: int = np.minimum(channels, shape.ci) * columns * ((lines - 1) * sy + shape.kh)
    return 4 * held


def _sums(shape: Conv2d, lines: int, block_m: int, channels: int) -> int:
    """Return the bytes of sums that a task with vectors of filters keeps between its parts."""
    kept: int = np.minimum(block_m, shape.co) * lines * shape.ow * (channels < shape.ci)
    return 4 * kept


def _is_ahead(shape: Conv2d, lines: int) -> bool:
    """Return whether filters are transposed once for all tasks: several would do the same."""
    weights = 4 * shape.co * shape.ci * shape.taps
    return weights <= _AHEAD and (lines < shape.oh or shape.n > 1)


def violation(shape: Conv2d, choice: Mapping[str, int], target: Target) -> str | None:
    """Return why a choice is sure to be slow, or None."""
    c, unit = choice, cpu_tiles.vector_unit(target)
    rules = [
        (unit.spills(c["rows"], c["vectors"], c["lanes"]), "more sums than registers"),
        (c["block_m"] < c["rows"], "a tile beyond its block"),
    ]
    if c["across"] > 0:
        return common.first_broken([*rules, *_rules_of_filters(shape, c)])
    return common.first_broken([*rules, *_rules_of_pixels(shape, c)])


def _rules_of_filters(shape: Conv2d, c: Mapping[str, int]) -> list[tuple[bool, str]]:
    width = c["vectors"] * c["lanes"]
    return [
        ((c["lines"] < 1) | (c["in_place"] > 0), "vectors of filters with im2col or in place"),
        ((c["panels"] > 1) | (c["tail"] > 0), "panels without im2col"),
        (c["rows"] > shape.ow, "a tile beyond its line"),
        (width >= shape.co + c["lanes"], "filters beyond the output"),
        ((c["block_m"] < shape.co) & (c["block_m"] % width > 0), "vectors beyond their block"),
        (_met(shape, c["lines"], c["channels"]) > _MOST_COPIED, "lines beyond the cache"),
        (
            _sums(shape, c["lines"], c["block_m"], c["channels"]) > _SUMS,
            "sums beyond the cache",
        ),
    ]


def _rules_of_pixels(shape: Conv2d, c: Mapping[str, int]) -> list[tuple[bool, str]]:
    pixels, width = shape.oh * shape.ow, c["vectors"] * c["lanes"]
    left = pixels % width
    packed = 4 * c["panels"] * width * c["channels"] * shape.taps
    unfolds = c["lines"] < 1
    copied = _copied(shape, c["channels"], c["lines"])
    return [
        (width >= pixels + c["lanes"], "pixels beyond the output"),
        (c["panels"] > 1 and c["panels"] * width >= 2 * pixels, "panels beyond the output"),
        (
            unfolds & (c["in_place"] < 1) & (c["channels"] > 1) & (packed > _MOST_COPIED),
            "panels beyond the cache",
        ),
        (
            (c["in_place"] > 0) & ((not unfolds) | (c["tail"] > 0)),
            "lines or a tail of what is in place",
        ),
        ((c["tail"] > 0) & (pixels < width), "no whole panel before the tail"),
        ((c["tail"] > 0) & ((left < 1) | (2 * left > c["lanes"])), "a tail of none or of many"),
        ((not unfolds) & ((c["panels"] > 1) | (c["tail"] > 0)), "panels without im2col"),
        ((not unfolds) & (4 * shape.ow < 3 * _pitch(shape)), "too many useless sums"),
        ((not unfolds) & (c["channels"] > 1) & (copied > _MOST_COPIED), "lines beyond the cache"),
    ]


def default_choice(shape: Conv2d, target: Target) -> dict[str, int]:
    """Return a good guess for a shape that was never tuned."""
    options, pixels = candidates(shape), shape.oh * shape.ow
    unit = cpu_tiles.vector_unit(target)
    is_few = shape.co <= _FEW_IN_PLACE and shape.ci <= _PAGES
    if unit.floats > 8 and _is_whole(shape) and is_few:
        return _in_place(shape, options, target)
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
    choice["channels"] = deepest if is_one else min(deepest, _UNFOLDED // 2)
    if unit.floats <= 8 and _skips_im2col(shape):
        fits = [
            n for n in options["lines"][1:] if _copied(shape, choice["channels"], n) <= 1 << 18
        ]
        block_m, lines = cpu_tiles.tasks(
            target, blocks, fits or [1], (shape.co, shape.oh), 1,
            lambda high, tall: 4 / high + (shape.kh - 1) / (high * tall) + 0.1 / tall, shape.n,
        )  # fmt: skip
        return choice | {"block_m": block_m, "lines": lines}
    left = cpu_tiles.tail_of(pixels, width, lanes)
    panelled, packed = pixels - left, 4 * deepest * shape.taps
    panels = [p for p in options["panels"] if p == 1 or p * width < 2 * panelled]
    if unit.floats <= 8 and shape.co <= _FEW_FILTERS:  # which read panels a few times only
        each = 4 * width * min(choice["channels"], shape.ci) * shape.taps
        panels = [p for p in panels if p == 1 or p * each <= _FIRST_CACHE]
    # Each element is packed again for each block, and weights are reloaded for each group.
    block_m, together = cpu_tiles.tasks(
        target, blocks, panels, (shape.co, panelled), width,
        lambda high, wide: 16 / high + 8 / wide + wide * packed / 8e6, shape.n,
    )  # fmt: skip
    return choice | {"block_m": block_m, "panels": together, "tail": int(left > 0)}


def _in_place(shape: Conv2d, options: Mapping[str, list[int]], target: Target) -> dict[str, int]:
    """Return the choice that reads images in place: all channels, and all filters at once."""
    pixels = shape.oh * shape.ow
    rows, vectors, lanes = cpu_tiles.tile(
        cpu_tiles.vector_unit(target), shape.co, pixels, narrow=True, is_far=True
    )
    width = vectors * lanes
    block_m = min((b for b in options["block_m"] if b >= shape.co), default=rows)
    panels = [p for p in options["panels"] if p == 1 or p * width < 2 * pixels]
    _, together = cpu_tiles.tasks(
        target, [block_m], panels, (shape.co, pixels), width, lambda _, wide: 1 / wide, shape.n
    )
    deepest = max(options["channels"])
    channels = min(c for c in options["channels"] if c >= min(shape.ci, deepest))
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
    if shape.taps == 1 and (not unit.halves or (_is_whole(shape) and 4 * idle > shape.co)):
        return False
    spared: float = depth * pixels
    if shape.taps > 1 and shape.ow >= 7 if is_short else shape.ow >= 4:
        left_out = shape.taps * pixels - _products(shape)
        spared = _PACKING_COST * spared + _PRODUCT_COST * shape.co * shape.ci * left_out
    return spared > shape.co * (pixels + depth) and _met(shape, 1, 1) <= _MOST_COPIED


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
    is_copied = any(shape.padding) or lanes <= 8
    transposed = _TRANSPOSED if lanes > 8 else _TRANSPOSED_SHORT
    some = shape.ci if is_copied or unit.halves else _READ
    near = [
        c for c in options["channels"] if c < 2 * some and 4 * width * c * shape.taps <= transposed
    ] or options["channels"][:1]
    blocks = [b for b in options["block_m"] if b >= shape.co or b % width == 0]
    # What is not copied is read in place and only needs to stay in cache.
    met = _MET if is_copied else 4 * _MET
    channels = _copied_channels(shape, near) if is_copied else near[-1]
    tall = [
        n
        for n in options["lines"][1:]
        if _met(shape, n, channels) <= met
        or (n * shape.ow <= _FEW and _met(shape, n, channels) <= 4 * _MET)
    ] or options["lines"][1:2]
    # Filters are transposed once or for each group of rows, rows copied for each block.
    pixels = shape.oh * shape.ow
    fresh = sy * sx / shape.taps
    block_m, lines = cpu_tiles.tasks(
        target, [b for b in blocks if b >= rows], tall, (shape.co, shape.oh), 1,
        lambda high, tall: (
            10 / (shape.n * pixels if _is_ahead(shape, tall) else tall * shape.ow)
            + 8 * fresh * (1 + (shape.kh - sy) / (tall * sy)) / high
        ),
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
        "in_place": 0,
    }


def _copied_channels(shape: Conv2d, options: list[int]) -> int:
    """Return how many channels are copied at a time, where vectors hold filters.

    What an output row reads of them stays in the L1 cache for its next tile, and the lines of a
    task, which share what they read, in L2.
    """
    deep = [c for c in options if c * shape.taps >= _DEEP] or options[-1:]
    shared = min(_TALL, shape.oh)
    fits = (c for c in deep if _met(shape, 1, c) <= _ROW and _met(shape, shared, c) <= _MET)
    return max(fits, default=min(deep))


def _skips_im2col(shape: Conv2d) -> bool:
    """Return whether rows without im2col pay: few useless sums, and much reuse among taps.

    Only for short vectors: those of a whole cache line are nearly all unaligned here, and aligned
    in packed panels.
    """
    few = 20 * (_pitch(shape) - shape.ow) <= shape.ow
    return few and shape.taps > 1 and (shape.stride == (1, 1) or shape.ci <= 4)


def _fetching(shape: Conv2d, choice: Mapping[str, int]) -> dict[str, int]:
    """Return which rows of the image are prefetched while packed ones are multiplied.

    Rows are dealt to tiles cyclically, one of each of some channels with each 16 steps.
    """
    s, width = shape, choice["vectors"] * choice["lanes"]
    none = {"fetched": 0, "fetch_lines": 1, "fetch_pitch": 0, "fetch_wide": 0}
    if choice["lines"] or choice.get("in_place"):
        return none
    lines, wide = choice["panels"], width
    if not _is_whole(s):
        rows = min(s.oh, (choice["panels"] * width - 2 + s.ow) // s.ow + 1)
        lines, wide = rows if s.kh < s.stride[0] else (rows - 1) * s.stride[0] + s.kh, s.w
    channels = min(choice["channels"], s.ci)
    tiles = common.ceil_div(min(choice["block_m"], s.co), choice["rows"]) * choice["panels"]
    steps = tiles * common.ceil_div(channels * s.taps, 16)
    fetched = common.ceil_div(lines * channels, steps)
    if fetched > _MOST_FETCHED:
        return none
    apart = {"fetch_pitch": s.h * s.w, "fetch_wide": wide}
    return {"fetched": fetched, "fetch_lines": lines, **apart}


def kernel(shape: Conv2d, choice: Mapping[str, int]) -> SourceKernel:
    """Return the kernel of a choice of knobs."""
    s, across = shape, choice["across"]
    width = choice["vectors"] * choice["lanes"]
    tail = choice["tail"] * (s.oh * s.ow % width)
    reached = choice["lines"] and not across
    runs = (width + _pitch(s) - 2) // _pitch(s) + 1 if reached else 1
    ahead = across and _is_ahead(s, choice["lines"])
    extents = common.defines(
        ahead=ahead, batch=s.n, co=s.co, ci=s.ci, ih=s.h, iw=s.w, oh=s.oh, ow=s.ow,
        kh=s.kh, kw=s.kw, sy=s.stride[0], sx=s.stride[1],
        py=s.padding[0], px=s.padding[1], bias=s.bias,
        residual=s.residual, affine=s.affine, relu=s.relu, kept=s.kept, shift=s.shift,
        lda=s.ci * s.taps, ldc=s.oh * s.ow, most_runs=runs,
        **{"in_place": 0, **choice, "tail": tail},
        rows_left=(s.ow if across else s.co) % choice["rows"],
        **({"apart": s.stride[1]} if across else _fetching(s, choice)),
    )  # fmt: skip
    # Operands that are not there are never read; the filters are passed instead.
    here = {each.name for each in s.arguments()}
    operands = ["bias", "residual", "scale", "shift"]
    read = [each if each in here else "weight" for each in operands]
    names = ["data", "weight", *read, *(["kept"] if s.kept else []), "out"]
    parts: tuple[str, ...] = ("shuffle.h", "panel.h", "strip.h", "conv2d_nchw.c")
    if across:
        parts = ("shuffle.h", "transpose_vectors.h", "conv2d_across.c")
    elif choice["lines"]:
        parts = ("planes.h", "strip.h", "conv2d_planes.c")
    packed = [workspace("ahead", (common.ceil_div(s.co, width) * width, s.ci * s.taps))]
    given = packed if ahead else []
    return SourceKernel(
        "conv2d_nchw",
        common.text("vectors.h", "tile.h", *parts),
        defines=extents,
        args=s.arguments(),
        calls=[call("conv2d_nchw", [*names, *(each.name for each in given)])],
        workspace=given,
        reference=s.reference(),
        language="c",
    )
