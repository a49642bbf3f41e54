"""Convolutions of 8-bit integers on a CPU, with their requantisation.

Images are arranged in words of four bytes once, which filters then read in place: see
`kernels/convolutions/int8_words.h`. Where there are tiles (AMX), `int8_tiles.h` multiplies by
them, and vectors elsewhere. Depthwise convolutions have a kernel of their own.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from autotune import SourceKernel, Target, arg, call, workspace
from autotune.errors import TemplateError
from autotune.graph import TensorType, ops
from autotune.kernel import Argument

from .. import common
from ..common import Array
from ..quantised import Requantisation, check_terms, has_tiles

OWNER = "conv2d_int8"
# Pixels of a vector, words of a step at most, channels of which words hold neighbours of a row.
_LANES, _MOST_WORDS, _FEW = 16, 16, 8
# Planes of a multiple of so many words would share sets of the L1 cache.
_ALIAS = 64
# Words that vectors read beyond the last plane, or the last line.
_BEYOND = 128


@dataclass(frozen=True)
class IntegerConv2d:
    """``n`` images of ``ci`` channels, by ``co`` filters; sides are pairs (before, after).

    Attributes:
        packed: whether filters are laid out by `packing` already.
    """

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
    packed: bool = False

    def __post_init__(self) -> None:
        extents = (self.n, self.h, self.w, self.co, self.ci, self.kh, self.kw, self.groups)
        if min(*extents, *self.stride, *self.hole) < 1 or min(map(min, self.sides)) < 0:
            raise TemplateError(f"{OWNER}: extents must be at least 1, padding 0, got {self}")
        if self.co % self.groups or self.ci % self.groups:
            raise TemplateError(f"{OWNER}: groups must divide both channels, got {self}")
        if min(self.rooms) < 0:
            raise TemplateError(f"{OWNER}: filters must not exceed the padded images, got {self}")
        if (self.packed or self.end.residual) and self.is_depthwise:
            raise TemplateError(
                f"{OWNER}: depthwise filters are not packed, and have no residual, got {self}"
            )
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
    def is_depthwise(self) -> bool:
        """Whether each channel has filters of its own."""
        return self.ci == self.groups > 1

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

    @cached_property
    def packing(self) -> ops.PackedFilters:
        """How filters are laid out: words of four channels, or of four neighbours of few."""
        channels = self.ci // self.groups
        by_columns = channels < _FEW and self.kw > 1 and self.hole[0] == 1
        of_channels = common.ceil_div(channels, 4)
        words = self.kh * channels * common.ceil_div(self.kw, 4) if by_columns else of_channels
        parts = common.ceil_div(words, _MOST_WORDS)
        return ops.PackedFilters(self.groups, common.ceil_div(words, parts), by_columns)

    @cached_property
    def flat(self) -> IntegerConv2d:
        """The same pointwise convolution on images of one row; others as they are."""
        plain = self.kh == self.kw == 1 and self.stride == (1, 1) and not any(map(any, self.sides))
        return replace(self, h=1, w=self.h * self.w) if plain else self

    def arguments(self) -> list[Argument]:
        """Return data, weight, sums of weights, scale, shift, a residual and the result."""
        out = (self.n, self.co, *self.out)
        filters: tuple[int, ...] = (self.co, self.ci // self.groups, self.kh, self.kw)
        if self.packed:
            filters = self.packing.infer(TensorType(filters, "int8")).shape
        return [
            arg("data", (self.n, self.ci, self.h, self.w), self.end.dtype),
            arg("weight", filters, "int8"),
            arg("sums", (self.co,), "int32"),
            arg("scale", (self.co,)),
            arg("shift", (self.co,)),
            *([arg("residual", out, self.end.residual.dtype)] if self.end.residual else []),
            arg("out", out, self.end.out_dtype, role="out"),
        ]

    def unpacked(self, weight: Array) -> Array:
        """Return filters OIHW."""
        if not self.packed:
            return weight
        shape = (self.co, self.ci // self.groups, self.kh, self.kw)
        numbers = np.arange(1, int(np.prod(shape)) + 1).reshape(shape)
        places = self.packing.reference(numbers).ravel()
        filters = np.zeros(shape, weight.dtype)
        filters.ravel()[places[places > 0] - 1] = weight.ravel()[places > 0]
        return filters

    def reference(self) -> Callable[..., Array]:
        """Return numpy in, numpy out."""
        op = ops.Conv2d(self.stride, (0, 0), self.hole, self.groups)
        around = ((0, 0), (0, 0), *self.sides)

        def convolution(data: Array, weight: Array, *channels: Array) -> Array:
            wide = np.pad(data.astype("float64"), around, constant_values=self.end.zero)
            filters = self.unpacked(weight).astype("float64")
            products = op.reference(wide + self.end.offset, filters)
            vectors = [each.reshape(-1, 1, 1) for each in channels[:3]]
            return self.end.finished(products, *vectors, *channels[3:])

        return convolution


@dataclass(frozen=True)
class Arrangement:
    """Images in words, as `int8_words.h` says.

    Attributes:
        planes: words of four channels; of no meaning where words have neighbours of a row.
        phases: of rows and of columns, which strides skip in turns.
        rows: of a phase.
        pitch: words of a row.
        plane: words of a plane.
        image: words of an image, or of a group of its channels.
    """

    planes: int
    phases: tuple[int, int]
    rows: int
    pitch: int
    plane: int
    image: int

    @staticmethod
    def of(shape: IntegerConv2d) -> Arrangement:
        """Return that of the images of a convolution."""
        (oh, ow), channels = shape.out, shape.ci // shape.groups
        if shape.packing.by_columns:
            pitch = _apart(common.ceil_div(ow, _LANES) * _LANES)
            quarters = common.ceil_div(shape.kw, 4)
            return Arrangement(0, (1, 1), 0, pitch, 0, shape.read[0] * channels * quarters * pitch)
        ry, rx = (
            (k - 1) * hole + 1 for k, hole in zip((shape.kh, shape.kw), shape.hole, strict=True)
        )
        sy, sx = shape.stride
        phases = min(sy, ry), min(sx, rx)
        rows, pitch = oh + (ry - 1) // sy, ow + (rx - 1) // sx
        words = phases[0] * phases[1] * rows * pitch
        plane = _apart(common.ceil_div(words, _LANES) * _LANES + _LANES)
        planes = common.ceil_div(channels, 4 * shape.packing.words) * shape.packing.words
        return Arrangement(planes, phases, rows, pitch, plane, planes * plane)


def _apart(words: int) -> int:
    return words + (_LANES if words % _ALIAS == 0 else 0)


def candidates(shape: IntegerConv2d) -> dict[str, list[int]]:
    """Return the values each knob may take for a shape."""
    if shape.is_depthwise:
        return {"vectors": [1], "block": [32], "span": [1]}
    blocks = common.up_to(max(2 * shape.filters, 32), (32, 64, 128, 256, 512, 1024, 2048))
    panels = common.ceil_div(shape.out[0] * shape.out[1], _LANES)
    return {
        "vectors": [1, 2, 3],
        "block": blocks,
        "span": common.up_to(max(panels, 1), (1, 2, 4, 8, 16, 32, 64)),
    }


def violation(shape: IntegerConv2d, choice: Mapping[str, int], target: Target) -> str | None:
    """Return why a choice cannot run or is sure to be slow, or None."""
    pixels, vectors = shape.out[0] * shape.out[1], choice["vectors"]
    return common.first_broken([
        ((vectors > 2) & ((vectors - 1) * _LANES >= pixels), "pixels beyond the result"),
        (has_tiles(target) and not shape.is_depthwise and (vectors != 2), "no tiles"),
    ])  # fmt: skip


def default_choice(shape: IntegerConv2d, target: Target) -> dict[str, int]:
    """Return a good guess: filters that stay in the L1 cache for as many pixels as cores allow.

    Pointwise ones read each pixel once, so that all filters meet it while it is in that cache.
    """
    options, cores = candidates(shape), max(target.limits.sm_count, 1)
    if shape.is_depthwise:
        return {name: values[0] for name, values in options.items()}
    pixels = shape.out[0] * shape.out[1]
    vectors = 2 if has_tiles(target) or pixels <= 2 * _LANES else 3
    panels, images = common.ceil_div(pixels, _LANES * vectors), shape.n * shape.groups
    whole = min([b for b in options["block"] if b >= shape.filters], default=options["block"][-1])
    pointwise = shape.kh == shape.kw == 1

    def tasks(block: int, span: int) -> int:
        return images * common.ceil_div(shape.filters, block) * common.ceil_div(panels, span)

    blocks = [whole] if pointwise else [32]
    spans = [1] if pointwise else options["span"][::-1]
    pairs = [(block, span) for block in blocks for span in spans]
    pairs += [(block, 1) for block in reversed(options["block"]) if block < whole]
    busy = [pair for pair in pairs if cores == 1 or tasks(*pair) >= 4 * cores]
    block, span = busy[0] if busy else pairs[-1]
    return {"vectors": vectors, "block": block, "span": span}


def kernel(shape: IntegerConv2d, choice: Mapping[str, int]) -> SourceKernel:
    """Return the kernel of a choice of knobs."""
    s = shape.flat
    (top, _), (left, _) = s.sides
    in_h, in_w = s.read
    extents = common.defines(
        n=s.n, groups=s.groups, h=s.h, w=s.w, co=s.filters, ci=s.ci // s.groups, kh=s.kh,
        kw=s.kw, oh=s.out[0], ow=s.out[1], in_h=in_h, in_w=in_w, pad_top=top, pad_left=left,
        stride_h=s.stride[0], stride_w=s.stride[1], hole_h=s.hole[0], hole_w=s.hole[1],
    )  # fmt: skip
    names = ["data", "weight", "sums", "scale", "shift"]
    if s.is_depthwise:
        return SourceKernel(
            OWNER,
            common.text("integer_dots.h", "integer_results.h", "depthwise_int8.c"),
            defines={**extents, **common.defines(**choice), **s.end.defines()},
            args=shape.arguments(),
            calls=[call(OWNER, [*names, "out"])],
            reference=shape.reference(),
            language="c",
        )
    arranged = Arrangement.of(s)
    filters = replace(s, packed=True).arguments()[1]
    quarters = common.ceil_div(s.kw, 4)
    line = arranged.pitch * s.stride[1] + 4 * quarters * s.hole[1] + 64
    layout = common.defines(
        packed=int(s.packed), by_columns=int(s.packing.by_columns), words=s.packing.words,
        parts=filters.shape[1], taps=filters.shape[2], planes=arranged.planes,
        phases_y=arranged.phases[0], phases_x=arranged.phases[1], rows_in=arranged.rows,
        pitch=arranged.pitch, plane=arranged.plane, quarters=quarters, line_bytes=line, **choice,
    )  # fmt: skip
    words = s.n * s.groups * arranged.image + _BEYOND + _MOST_WORDS * arranged.pitch
    # What is not there is never read.
    added = ["residual" if s.end.residual else "weight"]
    packed = "weight" if s.packed else "packed"
    room = [workspace("arranged", (words,), "int32")]
    room += [] if s.packed else [workspace("packed", filters.shape, "int8")]
    return SourceKernel(
        OWNER,
        common.text(
            "integer_dots.h", "integer_results.h", "int8_layout.h", "int8_words.h",
            "int8_tiles.h", "conv2d_int8.c",
        ),
        defines={**extents, **layout, **s.end.defines()},
        args=shape.arguments(),
        calls=[call(OWNER, [*names, *added, "arranged", packed, "out"])],
        workspace=room,
        reference=shape.reference(),
        language="c",
    )  # fmt: skip
