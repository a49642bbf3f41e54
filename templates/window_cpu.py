"""Depthwise convolution and pooling for a CPU: lines of outputs in vectors, a channel a task."""

from __future__ import annotations

from collections.abc import Mapping

from autotune import SourceKernel, Target, call
from autotune.errors import TemplateError

from . import common, cpu_tiles
from .window_shape import KINDS, Depthwise, Pool

Shape = Depthwise | Pool
ACTIVATIONS = ("none", "relu", "relu6")
# Bytes of the planes of a task, untuned, which are a part of a first cache, and at most.
_NEAR, _MOST = 18 << 10, 1 << 21
# Floats of a vector, untuned: wider ones reach over lines, and over lines of cache, too often.
_WIDE = 8


def check(shape: Shape) -> None:
    """Raise `TemplateError` for what the kernel does not compute."""
    if shape.layout != "NCHW":
        raise TemplateError(f"{shape.owner}: layout must be NCHW on a CPU, got {shape.layout!r}")
    if shape.epilogue.activation not in ACTIVATIONS:
        raise TemplateError(
            f"{shape.owner}: activation must be one of {', '.join(ACTIVATIONS)} on a CPU, got "
            f"{shape.epilogue.activation!r}"
        )


def candidates(shape: Shape) -> dict[str, list[int]]:
    """Return the values each knob may take for a shape."""
    lines = common.up_to(shape.oh, (1, 2, 4, 7, 8, 14, 16, 28, 32, 56, 112))
    return {
        "lanes": list(cpu_tiles.LANES), "lines": sorted({*lines, shape.oh}), "copied": [1, 0],
    }


def _copied(shape: Shape, lines: int) -> int:
    """Return the bytes of the planes of a task."""
    (sy, sx), (ry, rx) = shape.window.stride, shape.window.reach
    return 4 * sy * sx * (lines + (ry - 1) // sy) * (shape.ow + 16 + (rx - 1) // sx)


def violation(shape: Shape, choice: Mapping[str, int], target: Target) -> str | None:
    """Return why a choice is sure to be slow, or None."""
    copied = _copied(shape, choice["lines"])
    return common.first_broken([
        ((choice["lines"] > 1) & (copied > _MOST), "lines beyond the cache"),
        ((choice["lanes"] > 4) & (choice["lanes"] >= 2 * shape.ow), "lanes beyond the line"),
    ])  # fmt: skip


def default_choice(shape: Shape, target: Target) -> dict[str, int]:
    """Return a good guess for a shape that was never tuned."""
    options = candidates(shape)
    lines = [n for n in options["lines"] if _copied(shape, n) <= _NEAR]
    most = min(_WIDE, cpu_tiles.vector_unit(target).floats)
    wide = [n for n in options["lanes"] if n <= most and n < 2 * shape.ow]
    return {"lanes": max(wide, default=4), "lines": max(lines, default=1), "copied": 1}


def kernel(shape: Shape, choice: Mapping[str, int]) -> SourceKernel:
    """Return the kernel of a choice of knobs."""
    s, rest = shape, shape.epilogue
    (kh, kw), (sy, sx), (dy, dx) = s.window.size, s.window.stride, s.window.dilation
    operation = KINDS.index(s.kind) if isinstance(s, Pool) else 0
    knobs = dict(choice)
    copied = knobs.pop("copied")
    extents = common.defines(
        batch=s.n, channels=s.channels, multiplier=s.multiplier, ih=s.h, iw=s.w, oh=s.oh, ow=s.ow,
        kh=kh, kw=kw, sy=sy, sx=sx, dy=dy, dx=dx, py=s.window.padding[0], px=s.window.padding[1],
        operation=operation, count_padding=isinstance(s, Pool) and s.count_padding,
        bias=rest.bias, residual=rest.residual, affine=rest.affine,
        activation=ACTIVATIONS.index(rest.activation), **knobs,
    )  # fmt: skip
    # What there is none of is never read; the data stand in for it.
    here = {each.name for each in s.arguments()}
    names = ["data", "weight", "bias", "residual", "scale", "shift", "out"]
    return SourceKernel(
        "windows",
        common.text("woven.h", "windows.h", "windows.c" if copied else "windows_direct.c"),
        defines=extents,
        args=s.arguments(),
        calls=[call("windows", [each if each in here else "data" for each in names])],
        reference=s.reference(),
        language="c",
    )
