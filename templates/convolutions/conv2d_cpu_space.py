"""The space of the convolution for a CPU: its knobs, the choices it refuses, what a task reads."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from autotune import Target

from .. import common, cpu_tiles
from .conv2d_shape import Conv2d

# Values of "in_place".
PACKED, IN_PLACE, STREAMED = 0, 1, 2
# Bytes of its input that a task may copy.
MOST_COPIED = 1 << 21
# Bytes of filters that stay in the L2 cache, transposed once for all tasks; of sums that a task
# keeps between its parts of the channels.
_AHEAD, MOST_SUMS = 1 << 20, 1 << 20


def candidates(shape: Conv2d) -> dict[str, list[int]]:
    """Return the values each knob may take for a shape."""
    shape = shape.one_group
    return {
        # Filters, or pixels of a row where vectors hold filters.
        "rows": common.up_to(max(shape.co, shape.ow), cpu_tiles.ROWS),
        "vectors": list(cpu_tiles.VECTORS),
        "lanes": list(cpu_tiles.LANES),
        "block_m": common.up_to(2 * shape.co, (4, 8, 16, 32, 64, 128, 256, 512)),
        "panels": [1, 2, 4, 8, *((16, 32, 64) if is_plain(shape) else ())],
        "channels": common.up_to(
            2 * shape.ci, (1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024, 2048)
        ),
        "tail": [0, 1],
        # Output rows of a task without im2col; 0 packs panels.
        "lines": [0, *common.up_to(shape.oh, (1, 2, 4, 7, 8, 14, 16, 28, 56))],
        # Whether vectors are over output channels. A task then has all input channels, whose
        # filters are transposed some channels at a time, and no panels.
        "across": [0, 1],
        # Whether panels, or lines where vectors hold filters, are read in place; or lines are
        # packed while others are multiplied.
        "in_place": _ways(shape),
    }


def _ways(shape: Conv2d) -> list[int]:
    streams = is_plain(shape) and shape.stride[1] == 2
    return [PACKED, IN_PLACE, *([STREAMED] if streams else [])]


def is_copied(shape: Conv2d, lanes: int) -> bool:
    """Return whether vectors of filters copy lines that they do not read in place."""
    return any(shape.padding) or (lanes <= 8 and shape.taps > 1)


def holds_border(shape: Conv2d, rows: int) -> bool:
    """Return whether the first and the last tile of a line have all pixels that meet the padding.

    Only these skip products with it, so that what is beside a line is not read in place.
    """
    (_, sx), (_, px) = shape.stride, shape.padding[:2]
    right = shape.ow - (shape.w - shape.window.reach[1] + px + sx) // sx
    return common.ceil_div(px, sx) <= rows and right <= (shape.ow % rows or rows)


def is_plain(shape: Conv2d) -> bool:
    """Return whether it may be read in place: pointwise, no padding, all or every other column."""
    return shape.taps == 1 and not any(shape.padding) and shape.stride[1] <= 2


def is_whole(shape: Conv2d) -> bool:
    """Return whether it is pointwise with stride 1 and without padding."""
    return shape.taps == 1 and shape.stride == (1, 1) and not any(shape.padding)


def pitch(shape: Conv2d) -> int:
    """Return the pitch of rows of sums without im2col."""
    return shape.ow + (shape.window.reach[1] - 1) // shape.stride[1]


def copied_bytes(shape: Conv2d, channels: int, lines: int) -> int:
    """Return the bytes of the planes of a task without im2col."""
    channels = np.minimum(channels, shape.ci)
    (sy, sx), (ry, rx) = shape.stride, shape.window.reach
    phases = min(ry, sy) * min(rx, sx)
    held = lines + (ry - 1) // sy
    return 4 * channels * phases * held * pitch(shape)


def met_bytes(shape: Conv2d, lines: int, channels: int) -> int:
    """Return the input bytes that some output rows read of a part of the channels."""
    (sy, sx), (ry, rx) = shape.stride, shape.window.reach
    columns = (shape.ow - 1) * sx + rx
    held: int = np.minimum(channels, shape.ci) * columns * ((lines - 1) * sy + ry)
    return 4 * held


def sums_bytes(shape: Conv2d, lines: int, block_m: int, channels: int) -> int:
    """Return the bytes of sums that a task with vectors of filters keeps between its parts."""
    kept: int = np.minimum(block_m, shape.co) * lines * shape.ow * (channels < shape.ci)
    return 4 * kept


def is_ahead(shape: Conv2d, lines: int) -> bool:
    """Return whether filters are transposed once for all tasks: several would do the same."""
    weights = 4 * shape.co * shape.ci * shape.taps
    return weights <= _AHEAD and (lines < shape.oh or shape.n > 1)


def violation(shape: Conv2d, choice: Mapping[str, int], target: Target) -> str | None:
    """Return why a choice is sure to be slow, or None."""
    c, unit, shape = choice, cpu_tiles.vector_unit(target), shape.one_group
    rules = [
        (unit.spills(c["rows"], c["vectors"], c["lanes"]), "more sums than registers"),
        ((c["across"] < 1) & (c["block_m"] < c["rows"]), "a tile beyond its block"),
    ]
    if c["across"] > 0:
        return common.first_broken([*rules, *_rules_of_filters(shape, c)])
    return common.first_broken([*rules, *_rules_of_pixels(shape, c)])


def _rules_of_filters(shape: Conv2d, c: Mapping[str, int]) -> list[tuple[bool, str]]:
    width = c["vectors"] * c["lanes"]
    return [
        ((c["lines"] < 1) | (c["in_place"] > IN_PLACE), "vectors of filters with im2col"),
        (
            c["in_place"] > 0
            and not (is_copied(shape, c["lanes"]) and holds_border(shape, c["rows"])),
            "no copies, or padding in the middle of a line",
        ),
        ((c["panels"] > 1) | (c["tail"] > 0), "panels without im2col"),
        (c["rows"] > shape.ow, "a tile beyond its line"),
        (width >= shape.co + c["lanes"], "filters beyond the output"),
        ((c["block_m"] < shape.co) & (c["block_m"] % width > 0), "vectors beyond their block"),
        (met_bytes(shape, c["lines"], c["channels"]) > MOST_COPIED, "lines beyond the cache"),
        (
            sums_bytes(shape, c["lines"], c["block_m"], c["channels"]) > MOST_SUMS,
            "sums beyond the cache",
        ),
    ]


def _rules_of_pixels(shape: Conv2d, c: Mapping[str, int]) -> list[tuple[bool, str]]:
    pixels, width = shape.oh * shape.ow, c["vectors"] * c["lanes"]
    left = pixels % width
    packed = 4 * c["panels"] * width * c["channels"] * shape.taps
    unfolds, streams = c["lines"] < 1, c["in_place"] == STREAMED
    copied = copied_bytes(shape, c["channels"], c["lines"])
    return [
        (width >= pixels + c["lanes"], "pixels beyond the output"),
        (c["panels"] > 1 and c["panels"] * width >= 2 * pixels, "panels beyond the output"),
        (
            unfolds & (c["in_place"] < 1) & (c["channels"] > 1) & (packed > MOST_COPIED),
            "panels beyond the cache",
        ),
        (
            (c["in_place"] == IN_PLACE) & ((not unfolds) | (c["tail"] > 0)),
            "lines or a tail of what is in place",
        ),
        (c["in_place"] == IN_PLACE and not is_plain(shape), "im2col of what is in place"),
        (streams & (unfolds | (c["block_m"] < shape.co)), "a part of the filters that streams"),
        (streams & (width >= shape.ow + c["lanes"]), "pixels beyond the line"),
        (streams & (8 * c["channels"] * shape.ow > MOST_COPIED), "lines beyond the cache"),
        ((c["tail"] > 0) & (pixels < width), "no whole panel before the tail"),
        ((c["tail"] > 0) & ((left < 1) | (2 * left > c["lanes"])), "a tail of none or of many"),
        ((not unfolds) & ((c["panels"] > 1) | (c["tail"] > 0)), "panels without im2col"),
        ((not unfolds) & (4 * shape.ow < 3 * pitch(shape)), "too many useless sums"),
        (
            (not unfolds) & (not streams) & (c["channels"] > 1) & (copied > MOST_COPIED),
            "lines beyond the cache",
        ),
    ]
