"""Convolution for a CPU: panels of the unfolded input in cache, sums in vector registers."""

from __future__ import annotations

from collections.abc import Mapping

from autotune import SourceKernel, Target, call

from . import common
from .conv2d_shape import Conv2d


def candidates(shape: Conv2d) -> dict[str, list[int]]:
    """Return the values each knob may take for a shape."""
    return {
        "rows": common.up_to(shape.co, (1, 2, 4, 6, 8, 12, 14)),
        "vectors": [1, 2, 3, 4],
        "lanes": [4, 8, 16],
        "block_m": common.up_to(2 * shape.co, (4, 8, 16, 32, 64, 128, 256, 512)),
        "panels": [1, 2, 4, 8],
        "channels": common.up_to(2 * shape.ci, (1, 2, 4, 8, 16, 32, 64, 128, 256)),
        "tail": [0, 1],
    }


def violation(shape: Conv2d, choice: Mapping[str, int], target: Target) -> str | None:
    """Return why a choice is sure to be slow, or None."""
    c, pixels = choice, shape.oh * shape.ow
    width = c["vectors"] * c["lanes"]
    left = pixels % width
    packed = 4 * c["panels"] * width * c["channels"] * shape.taps
    rules = [
        (common.spills(c["rows"], c["vectors"]), "more sums than registers"),
        (c["block_m"] < c["rows"], "a tile beyond its block"),
        (width >= pixels + c["lanes"], "pixels beyond the output"),
        (c["panels"] > 1 and c["panels"] * width >= 2 * pixels, "panels beyond the output"),
        (c["channels"] > 1 and packed > 1 << 21, "panels beyond the cache"),
        ((c["tail"] > 0) & (pixels < width), "no whole panel before the tail"),
        ((c["tail"] > 0) & ((left < 1) | (2 * left > c["lanes"])), "a tail of none or of many"),
    ]
    return common.first_broken(rules)


def default_choice(shape: Conv2d, target: Target) -> dict[str, int]:
    """Return a good guess for a shape that was never tuned."""
    options, pixels = candidates(shape), shape.oh * shape.ow
    rows, vectors, lanes = common.cpu_tile(shape.co, pixels)
    width = vectors * lanes
    channels = [c for c in options["channels"] if c * shape.taps <= 288]
    return {
        "rows": rows,
        "vectors": vectors,
        "lanes": lanes,
        "block_m": max(b for b in options["block_m"] if b <= max(256, rows)),
        "panels": 1,
        "channels": max(channels, default=1),
        "tail": int(pixels > width and 0 < pixels % width <= lanes // 2),
    }


def kernel(shape: Conv2d, choice: Mapping[str, int]) -> SourceKernel:
    """Return the kernel of a choice of knobs."""
    s = shape
    tail = choice["tail"] * (s.oh * s.ow % (choice["vectors"] * choice["lanes"]))
    extents = common.defines(
        batch=s.n, co=s.co, ci=s.ci, ih=s.h, iw=s.w, oh=s.oh, ow=s.ow, kh=s.kh, kw=s.kw,
        sy=s.stride[0], sx=s.stride[1], py=s.padding[0], px=s.padding[1], bias=s.bias,
        residual=s.residual, affine=s.affine, relu=s.relu, lda=s.ci * s.taps, ldc=s.oh * s.ow,
        **{**choice, "tail": tail},
    )  # fmt: skip
    # What there is none of is never read; the filters stand in for it.
    here = {each.name for each in s.arguments()}
    rest = ["bias", "residual", "scale", "shift"]
    names = ["data", "weight", *(each if each in here else "weight" for each in rest), "out"]
    return SourceKernel(
        "conv2d_nchw",
        common.text("tile.h", "conv2d_nchw.c"),
        defines=extents,
        args=s.arguments(),
        calls=[call("conv2d_nchw", names)],
        reference=s.reference(),
        language="c",
    )
