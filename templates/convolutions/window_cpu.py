"""Depthwise convolution and pooling for a CPU: neighbouring outputs of a row in vectors.

Rows of the image are read in place, and elements that a vector loads beyond them are masked
(`windows_direct.c`); or, for strides beyond two and for large windows, they are copied with the
padding and deinterleaved by the stride (`windows.c`).
"""

from __future__ import annotations

from collections.abc import Mapping
from math import gcd

from autotune import SourceKernel, Target, call
from autotune.errors import TemplateError

from .. import common, cpu_tiles
from ..cpu_function import following
from .window_shape import KINDS, Depthwise, Pool

Shape = Depthwise | Pool
# What the kernel does with sums in registers; other activations follow a task.
_OWN = ("none", "relu", "relu6")
# Bytes of the planes of a task: untuned, a part of L1, and at most.
_NEAR, _MOST = 18 << 10, 1 << 21
# Untuned: floats of a vector that are nearly always best, and rows that are computed together
# where not all are.
_WIDE, _FEW = 8, 8
# Limits of the kernel that does not copy, which is fully unrolled: output rows that are computed
# together, multiply-adds of a column of them, rows and columns of a window; floats of a row.
_TOGETHER, _UNROLLED, _TAPS, _LONGEST = 16, 1024, 16, 1 << 14
# Bytes after which cache lines alias, and ways of the cache.
_ALIAS, _WAYS = 4096, 8


def check(shape: Shape) -> None:
    """Raise `TemplateError` for what the kernel does not compute."""
    if shape.layout != "NCHW":
        raise TemplateError(f"{shape.owner}: layout must be NCHW on a CPU, got {shape.layout!r}")


def candidates(shape: Shape) -> dict[str, list[int]]:
    """Return the values each knob may take for a shape."""
    lines = common.up_to(shape.oh, (1, 2, 4, 7, 8, 14, 16, 28, 32, 56, 112))
    return {
        "lanes": list(cpu_tiles.LANES),
        # Of a task that copies, else of sums that are made together.
        "lines": sorted({*lines, shape.oh}),
        "copied": [1, 0],
    }


def _copied(shape: Shape, lines: int) -> int:
    """Return the bytes of the planes of a task."""
    (sy, sx), (ry, rx) = shape.window.stride, shape.window.reach
    return 4 * sy * sx * (lines + (ry - 1) // sy) * (shape.ow + 16 + (rx - 1) // sx)


def _met(shape: Shape, lines: int) -> int:
    """Return how many image rows some neighbouring output rows read."""
    return (lines - 1) * shape.window.stride[0] + shape.window.reach[0]


def violation(shape: Shape, choice: Mapping[str, int], target: Target) -> str | None:
    """Return why a choice is sure to be slow, or None."""
    lines, lanes = choice["lines"], choice["lanes"]
    copied, direct = choice["copied"] > 0, choice["copied"] < 1
    (kh, kw), sx = shape.window.size, shape.window.stride[1]
    left, most = shape.window.padding[1], lines * shape.window.taps
    last = (shape.ow - 1) // lanes * lanes
    reached = (last - 1) * sx + shape.window.reach[1] - left
    large = max(kh, kw) > _TAPS or sx > 2 or shape.w > _LONGEST
    return common.first_broken([
        (copied & (lines > 1) & (_copied(shape, lines) > _MOST), "lines beyond the cache"),
        ((lanes > 4) & (lanes >= 2 * shape.ow), "lanes beyond the line"),
        (direct & large, "windows or strides too large not to copy"),
        (direct & ((lines > _TOGETHER) | (most > _UNROLLED)), "too many sums together"),
        (direct & (_met(shape, lines) > 4 * _TOGETHER), "too many lines together"),
        (
            direct & ((left > lanes * sx) | ((last > 0) & (reached > shape.w))),
            "padding beyond a vector",
        ),
    ])  # fmt: skip


def default_choice(shape: Shape, target: Target) -> dict[str, int]:
    """Return a good guess for a shape that was never tuned."""
    options, lanes = candidates(shape), _lanes(shape, cpu_tiles.vector_unit(target))
    direct = [{"lanes": lanes, "lines": n, "copied": 0} for n in options["lines"]]
    fits = [c["lines"] for c in direct if violation(shape, c, target) is None]
    if fits:
        few = [n for n in fits if n <= _FEW or n == shape.oh]
        near = [n for n in few if _stay(shape, n)] or fits[:1]
        return {"lanes": lanes, "lines": min(near, key=lambda n: _loaded(shape, n)), "copied": 0}
    lines = [n for n in options["lines"] if _copied(shape, n) <= _NEAR]
    return {"lanes": min(lanes, _WIDE), "lines": max(lines, default=1), "copied": 1}


def _lanes(shape: Shape, unit: cpu_tiles.VectorUnit) -> int:
    """Return the floats of a vector: so few that little is read beyond rows and cache lines.

    The widest are for rows that take two narrower ones, or where they are issued as fast.
    """
    pays = shape.window.stride[1] == 1 and shape.ow > _WIDE
    most = 2 * _WIDE if pays and (shape.ow <= 2 * _WIDE or not unit.halves) else _WIDE
    wide = [n for n in cpu_tiles.LANES if n <= min(most, unit.floats) and n < 2 * shape.ow]
    return max(wide, default=4)


def _loaded(shape: Shape, lines: int) -> int:
    """Return how many rows are loaded for a plane where so many are computed together."""
    groups, left = divmod(shape.oh, lines)
    return groups * _met(shape, lines) + (_met(shape, left) if left else 0)


def _stay(shape: Shape, lines: int) -> bool:
    """Return whether the input of rows that are computed together stays in the L1 cache."""
    places = _ALIAS // gcd(_ALIAS, 4 * shape.w)
    return _met(shape, lines) + lines <= _WAYS * places


def kernel(shape: Shape, choice: Mapping[str, int]) -> SourceKernel:
    """Return the kernel of a choice of knobs."""
    s, epilogue = shape, shape.epilogue
    (kh, kw), (sy, sx), (dy, dx) = s.window.size, s.window.stride, s.window.dilation
    operation = KINDS.index(s.kind) if isinstance(s, Pool) else 0
    knobs = dict(choice)
    copied = knobs.pop("copied")
    extents = common.defines(
        batch=s.n, channels=s.channels, multiplier=s.multiplier, ih=s.h, iw=s.w, oh=s.oh, ow=s.ow,
        kh=kh, kw=kw, sy=sy, sx=sx, dy=dy, dx=dx, py=s.window.padding[0], px=s.window.padding[1],
        operation=operation, count_padding=isinstance(s, Pool) and s.count_padding,
        bias=epilogue.bias, residual=epilogue.residual, affine=epilogue.affine,
        activation=_OWN.index(epilogue.activation) if epilogue.activation in _OWN else 0, **knobs,
    )  # fmt: skip
    last = following(epilogue.activation, _OWN)
    # Operands that are not there are never read; the data are passed instead.
    here = {each.name for each in s.arguments()}
    names = ["data", "weight", "bias", "residual", "scale", "shift", "out"]
    return SourceKernel(
        "windows",
        "\n".join(
            (
                common.text("shuffle.h", "windows.h"),
                last.before,
                common.text("windows.c" if copied else "windows_direct.c"),
            )
        ),
        defines={**extents, **last.defines},
        args=s.arguments(),
        calls=[call("windows", [each if each in here else "data" for each in names])],
        reference=s.reference(),
        flags=last.flags,
        language="c",
    )
