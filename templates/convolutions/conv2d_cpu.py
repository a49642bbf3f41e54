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

from autotune import SourceKernel, call, workspace

from .. import common
from ..cpu_function import following
from .conv2d_cpu_filters import STREAMS
from .conv2d_cpu_space import IN_PLACE, STREAMED, is_ahead, is_whole, pitch
from .conv2d_cpu_space import candidates as candidates
from .conv2d_cpu_space import violation as violation
from .conv2d_cpu_untuned import default_choice as default_choice
from .conv2d_shape import Conv2d

# Rows that are prefetched with 16 steps at most: few filters would wait for more. Those of 1x1
# layers are short.
_MOST_FETCHED, _MOST_FETCHED_SHORT = 2, 8
# Channels between the prefetch of a row that is read in place and its use.
_STEPS = 8


def _fetching(shape: Conv2d, choice: Mapping[str, int]) -> dict[str, int]:
    """Return which rows of the image are prefetched while packed ones are multiplied.

    Rows are dealt to tiles cyclically, one of each of some channels with each 16 steps.
    """
    s, width = shape, choice["vectors"] * choice["lanes"]
    none = {"fetched": 0, "fetch_lines": 1, "fetch_pitch": 0, "fetch_wide": 0}
    if choice.get("in_place") == IN_PLACE and choice["lanes"] > 8:
        # Runs of few channels go on in the next panel. Short vectors have no time for more.
        is_run = int(choice["channels"] <= STREAMS)
        return none | {"fetch_steps": _STEPS, "fetch_last": is_run, "fetch_next": is_run}
    if choice["lines"] or choice.get("in_place"):
        return none
    lines, wide = choice["panels"], width
    if not is_whole(s):
        rows, (reach, _) = (
            min(s.oh, (choice["panels"] * width - 2 + s.ow) // s.ow + 1),
            s.window.reach,
        )
        lines, wide = rows if reach < s.stride[0] else (rows - 1) * s.stride[0] + reach, s.w
    channels = min(choice["channels"], s.ci)
    tiles = common.ceil_div(min(choice["block_m"], s.co), choice["rows"]) * choice["panels"]
    steps = tiles * common.ceil_div(channels * s.taps, 16)
    fetched = common.ceil_div(lines * channels, steps)
    if fetched > (_MOST_FETCHED_SHORT if is_whole(s) else _MOST_FETCHED):
        return none
    apart = {"fetch_pitch": s.h * s.w, "fetch_wide": wide}
    return {"fetched": fetched, "fetch_lines": lines, **apart}


def kernel(shape: Conv2d, choice: Mapping[str, int]) -> SourceKernel:
    """Return the kernel of a choice of knobs."""
    s, across = shape.one_group, choice["across"]
    width = choice["vectors"] * choice["lanes"]
    tail = choice["tail"] * (s.oh * s.ow % width)
    reached = choice["lines"] and not across and not choice.get("in_place")
    runs = (width + pitch(s) - 2) // pitch(s) + 1 if reached else 1
    ahead = across and is_ahead(s, choice["lines"])
    extents = common.defines(
        ahead=ahead, batch=s.n, co=s.co, ci=s.ci, ih=s.h, iw=s.w, oh=s.oh, ow=s.ow,
        kh=s.kh, kw=s.kw, sy=s.stride[0], sx=s.stride[1],
        dy=s.dilation[0], dx=s.dilation[1], groups=shape.groups,
        py=s.padding[0], px=s.padding[1], bias=s.bias,
        residual=s.residual, affine=s.affine, relu=s.epilogue.activation == "relu",
        kept=s.kept, shift=s.shift,
        lda=s.ci * s.taps, ldc=s.oh * s.ow, most_runs=runs,
        **{"in_place": 0, **choice, "tail": tail},
        rows_left=(s.ow if across else s.co) % choice["rows"],
        **({"apart": s.stride[1]} if across else _fetching(s, choice)),
    )  # fmt: skip
    # Operands that are not there are never read; the filters are passed instead.
    here = {each.name for each in shape.arguments()}
    operands = ["bias", "residual", "scale", "shift"]
    read = [each if each in here else "weight" for each in operands]
    names = ["data", "weight", *read, *(["kept"] if s.kept else []), "out"]
    parts: tuple[str, ...] = (
        "shuffle.h", "strided.h", "tile.h", "panel.h", "strip.h", "conv2d_nchw.c",
    )  # fmt: skip
    if across:
        parts = ("tile.h", "shuffle.h", "transpose_vectors.h", "conv2d_across.c")
    elif choice.get("in_place") == STREAMED:
        parts = ("shuffle.h", "strided.h", "tile.h", "panel.h", "conv2d_streamed.c")
    elif choice["lines"]:
        parts = ("shuffle.h", "strided.h", "tile.h", "planes.h", "strip.h", "conv2d_planes.c")
    filters = shape.groups * common.ceil_div(s.co, width) * width
    packed = [workspace("ahead", (filters, s.ci * s.taps))]
    given = packed if ahead else []
    last = following(shape.epilogue.activation, ("none", "relu"))
    return SourceKernel(
        "conv2d_nchw",
        "\n".join((common.text("vectors.h"), last.before, common.text(*parts))),
        defines={**extents, **last.defines},
        args=shape.arguments(),
        calls=[call("conv2d_nchw", [*names, *(each.name for each in given)])],
        workspace=given,
        reference=shape.reference(),
        flags=last.flags,
        language="c",
    )
