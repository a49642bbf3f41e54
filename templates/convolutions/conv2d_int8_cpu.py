"""Convolutions of 8-bit integers on a CPU, with their requantisation.

Each task packs what filters read for some pixels, four terms of a sum in a word, and multiplies it
by filters as they are. `convolve_int8` of `kernels/convolutions/conv2d_int8.c` says how.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np

from autotune import SourceKernel, Target, arg, call, workspace
from autotune.errors import TemplateError
from autotune.graph import ops
from autotune.kernel import Argument

from .. import common
from ..common import Array
from ..quantised import Requantisation, check_terms

OWNER = "conv2d_int8"
# Sums in registers, of 32, and instructions that one of packing is worth.
_SUMS, _PACKING = 28, 12


@dataclass(frozen=True)
class IntegerConv2d:
    """``n`` images of ``ci`` channels, by ``co`` filters; sides are pairs (before, after)."""

    n: int
    h: int
    w: int
    co: int
    ci: int
    kh: int
    kw: int
    stride: tuple[int, int]
    sides: tuple[tuple[int, int], tuple[int, int]]
    hole: tuple[int, int]
    groups: int
    end: Requantisation

    def __post_init__(self) -> None:
        extents = (self.n, self.h, self.w, self.co, self.ci, self.kh, self.kw, self.groups)
        if min(*extents, *self.stride, *self.hole) < 1 or min(map(min, self.sides)) < 0:
            raise TemplateError(f"{OWNER}: extents must be at least 1, padding 0, got {self}")
        if self.co % self.groups or self.ci % self.groups:
            raise TemplateError(f"{OWNER}: groups must divide both channels, got {self}")
        if min(self.rooms) < 0:
            raise TemplateError(f"{OWNER}: filters must not exceed the padded images, got {self}")
        check_terms(OWNER, self.terms)

    @property
    def rooms(self) -> tuple[int, int]:
        """How far a filter moves in the padded images."""
        y, x = (
            size + before + after - (k - 1) * hole - 1
            for size, k, hole, (before, after) in zip(
                (self.h, self.w), (self.kh, self.kw), self.hole, self.sides, strict=True
            )
        )
        return y, x

    @property
    def out(self) -> tuple[int, int]:
        """Rows and columns of the result."""
        y, x = (room // step + 1 for room, step in zip(self.rooms, self.stride, strict=True))
        return y, x

    @property
    def read(self) -> tuple[int, int]:
        """Rows and columns of the padded images that filters reach."""
        y, x = (
            (size - 1) * step + (k - 1) * hole + 1
            for size, step, k, hole in zip(
                self.out, self.stride, (self.kh, self.kw), self.hole, strict=True
            )
        )
        return y, x

    @property
    def pads(self) -> bool:
        """Whether images are copied with padding around, or cut."""
        (top, _), (left, _) = self.sides
        return bool(top or left) or self.read != (self.h, self.w)

    @property
    def filters(self) -> int:
        """Of a group."""
        return self.co // self.groups

    @property
    def terms(self) -> int:
        """Of each sum."""
        return self.ci // self.groups * self.kh * self.kw

    @property
    def flop(self) -> int:
        """Two operations for each product."""
        return 2 * self.n * self.co * self.terms * self.out[0] * self.out[1]

    @property
    def bytes(self) -> int:
        """Bytes that must move at least once."""
        return sum(each.bytes for each in self.arguments())

    def arguments(self) -> list[Argument]:
        """Return data, weight, sums of weights, scale, shift and the result."""
        filters = (self.co, self.ci // self.groups, self.kh, self.kw)
        return [
            arg("data", (self.n, self.ci, self.h, self.w), self.end.dtype),
            arg("weight", filters, "int8"),
            arg("sums", (self.co,), "int32"),
            arg("scale", (self.co,)),
            arg("shift", (self.co,)),
            arg("out", (self.n, self.co, *self.out), self.end.out_dtype, role="out"),
        ]

    def reference(self) -> Callable[..., Array]:
        """Return numpy in, numpy out."""
        op = ops.Conv2d(self.stride, (0, 0), self.hole, self.groups)
        around = ((0, 0), (0, 0), *self.sides)

        def convolution(data: Array, weight: Array, *channels: Array) -> Array:
            wide = np.pad(data.astype("float64"), around, constant_values=self.end.zero)
            products = op.reference(wide + self.end.offset, weight.astype("float64"))
            return self.end.finished(products, *[each.reshape(-1, 1, 1) for each in channels])

        return convolution


def candidates(shape: IntegerConv2d) -> dict[str, list[int]]:
    """Return the values each knob may take for a shape."""
    return {
        "rows": common.up_to(shape.filters, (1, 2, 4, 6, 7, 8, 9, 12, 13, 14)),
        "vectors": [1, 2, 3, 4],
        "block": common.up_to(max(shape.filters, 16), (16, 32, 64, 128, 256, 512, 1024, 2048)),
    }


def violation(shape: IntegerConv2d, choice: Mapping[str, int], target: Target) -> str | None:
    """Return why a choice cannot run or is sure to be slow, or None."""
    c = choice
    pixels = shape.out[0] * shape.out[1]
    return common.first_broken([
        (c["rows"] * c["vectors"] > _SUMS, "more sums than registers"),
        (c["block"] < c["rows"], "a tile beyond its block"),
        ((c["vectors"] > 1) & ((c["vectors"] - 1) * 16 >= pixels), "pixels beyond the result"),
    ])  # fmt: skip


def default_choice(shape: IntegerConv2d, target: Target) -> dict[str, int]:
    """Return the choice with the fewest multiply-adds and packed words, where cores are busy."""
    options, cores = candidates(shape), max(target.limits.sm_count, 1)
    pixels, images = shape.out[0] * shape.out[1], shape.n * shape.groups

    def cycles(rows: int, vectors: int) -> float:
        panels = common.ceil_div(pixels, 16 * vectors)
        used = panels * vectors if vectors != 2 else common.ceil_div(pixels, 16)
        whole, rest = divmod(shape.filters, rows)
        step = max(rows * vectors / 2, (rows + vectors) / 2, 4) + 1
        return used / vectors * (whole * step + rest * max(vectors / 2, 4))

    choices = [
        (rows, vectors)
        for rows in options["rows"]
        for vectors in options["vectors"]
        if violation(shape, {"rows": rows, "vectors": vectors, "block": 1 << 20}, target) is None
    ]
    rows, vectors = min(choices, key=lambda choice: cycles(*choice))
    panels = images * common.ceil_div(pixels, 16 * vectors)
    blocks = [b for b in options["block"] if b >= rows] or [max(options["block"])]
    # A panel is packed for each block of filters: one, unless cores would have nothing to do.
    busy = [b for b in blocks if panels * common.ceil_div(shape.filters, b) >= 2 * cores]
    whole = [b for b in blocks if b >= shape.filters]
    block = min(whole) if whole and panels >= 2 * cores else max(busy, default=min(blocks))
    return {"rows": rows, "vectors": vectors, "block": block}


def kernel(shape: IntegerConv2d, choice: Mapping[str, int]) -> SourceKernel:
    """Return the kernel of a choice of knobs."""
    s = shape
    (top, _), (left, _) = s.sides
    in_h, in_w = s.read
    extents = common.defines(
        n=s.n, groups=s.groups, h=s.h, w=s.w, co=s.filters, ci=s.ci // s.groups, kh=s.kh,
        kw=s.kw, oh=s.out[0], ow=s.out[1], in_h=in_h, in_w=in_w, pad_top=top, pad_left=left,
        stride_h=s.stride[0], stride_w=s.stride[1], hole_h=s.hole[0], hole_w=s.hole[1], **choice,
    )  # fmt: skip
    padded = workspace("padded", (s.n, s.ci, in_h, in_w), s.end.dtype)
    return SourceKernel(
        OWNER,
        common.text("integer_dots.h", "conv2d_int8.c"),
        defines={**extents, **s.end.defines()},
        args=s.arguments(),
        calls=[call(OWNER, ["data", "weight", "sums", "scale", "shift",
                            "padded" if s.pads else "data", "out"])],
        workspace=[padded] if s.pads else [],
        reference=s.reference(),
        language="c",
    )  # fmt: skip
