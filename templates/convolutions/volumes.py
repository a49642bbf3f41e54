"""Convolutions of volumes and transposed convolutions of images, for `via_conv2d`: float32."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from math import prod

from autotune import arg
from autotune.errors import TemplateError
from autotune.graph import TensorType, ops
from autotune.graph.passes.woven import PhaseAxis
from autotune.kernel import Argument

from .. import common
from ..common import Array
from .conv2d_nhwc import Conv2dNhwc
from .conv2d_shape import Conv2d
from .via_conv2d import Copy, blocks_for
from .window_shape import Window

Shape = tuple[int, ...]
# Floats of shared memory for filters that are arranged, and most taps that one may have.
FILTER_ROOM, MOST_TAPS = 9000, 4096


@dataclass(frozen=True)
class _Layer:
    """A layer without what follows it: its operator, and the shapes of its data and weight."""

    op: ops.Conv3d | ops.Conv2dTranspose
    data: Shape
    weight: Shape

    @cached_property
    def out(self) -> Shape:
        """Shape of the result."""
        return self.op.infer(TensorType(self.data), TensorType(self.weight)).shape

    @property
    def images(self) -> Conv2d | Conv2dNhwc:
        """The convolution of images that computes it."""
        raise NotImplementedError

    @property
    def is_taken(self) -> bool:
        """Returns whether the images of a layer that can be are not too large for kernels."""
        try:
            return self.images is not None
        except TemplateError:
            return False

    @property
    def flop(self) -> int:
        """Multiplications and additions."""
        return int(
            self.op.flop(*(TensorType(each) for each in (self.data, self.weight, self.out)))
        )

    @property
    def bytes(self) -> int:
        """Bytes that must move at least once."""
        return 4 * (prod(self.data) + prod(self.weight) + prod(self.out))

    def arguments(self) -> list[Argument]:
        """Return data, weight and out."""
        return [
            arg("data", self.data, "float32"),
            arg("weight", self.weight, "float32"),
            arg("out", self.out, "float32", role="out"),
        ]

    def reference(self) -> Callable[..., Array]:
        """Return numpy in, numpy out."""
        return self.op.reference


@dataclass(frozen=True)
class _Runs:
    """How runs of neighbours are copied: the numbers that ``conv3d_copies.cu`` has for them."""

    run: int
    batch: int
    places: int
    inner: int
    taps: int
    depth: int
    step: int
    hole: int
    before: int
    of_batch: int
    of_depth: int
    of_inner: int

    @property
    def size(self) -> int:
        """Elements of the copy."""
        return self.run * self.batch * self.places * self.inner * self.taps

    @property
    def blocks(self) -> int:
        """Blocks that copy it."""
        return blocks_for(self.size, common.widest(self.run))

    @property
    def text(self) -> str:
        """Arguments of the text."""
        numbers = (
            self.run, self.size // self.run, self.places, self.inner, self.taps, self.depth,
            self.step, self.hole, self.before, self.of_batch, self.of_depth, self.of_inner,
        )  # fmt: skip
        return ", ".join(map(str, numbers))


@dataclass(frozen=True)
class Volume(_Layer):
    """A convolution of volumes: planes that a filter sees at once are channels of an image."""

    op: ops.Conv3d

    @property
    def first(self) -> bool:
        """Whether channels stand before depth, height and width."""
        return self.op.data_layout == "NCDHW"

    @property
    def text(self) -> str:
        """The file of the kernels that copy."""
        return "conv3d_copies.cu"

    @cached_property
    def joined(self) -> int | None:
        """The first of two neighbouring axes of which filters see one element and leave out none.

        These are one axis then, and a volume is an image as it lies.
        """
        taps = self.weight[2:] if self.first else self.weight[:3]
        moves = zip(taps, self.op.steps, self.op.sides, strict=True)
        still = [(tap, step, *sides) == (1, 1, 0, 0) for tap, step, sides in moves]
        return next((axis for axis in range(2) if still[axis] and still[axis + 1]), None)

    @cached_property
    def images(self) -> Conv2d | Conv2dNhwc:
        """The convolution of images: one for each plane of the result, or whole volumes."""
        op, first, joined = self.op, self.first, self.joined
        extents = self.data[2:] if first else self.data[1:4]
        taps = self.weight[2:] if first else self.weight[:3]
        (co, ci), n = self.weight[:2] if first else self.weight[:2:-1], self.data[0]
        y, x = (0, 2) if joined == 1 else (1, 2)
        if joined is None:
            n, ci = n * self.out[2 if first else 1], ci * taps[0]
            h, w = extents[1:]
        else:
            h = extents[0] * (extents[1] if joined == 0 else 1)
            w = extents[2] * (extents[1] if joined == 1 else 1)
        (top, bottom), (left, right) = op.sides[y], op.sides[x]
        steps, sides, holes = (
            (op.steps[y], op.steps[x]),
            (top, left, bottom, right),
            (op.holes[y], op.holes[x]),
        )
        if first:
            size = (taps[y], taps[x])
            return Conv2d(n, h, w, co, ci, *size, steps, sides, False, False, dilation=holes)
        return Conv2dNhwc(n, h, w, co, ci, Window((taps[y], taps[x]), steps, sides, holes))

    @cached_property
    def runs(self) -> dict[str, _Runs]:
        """What is copied: arrays that do not lie as those of images."""
        if self.joined is not None:
            return {}
        op, first = self.op, self.first
        n, deep = self.data[0], self.weight[2 if first else 0]
        depth, planes = (shape[2 if first else 1] for shape in (self.data, self.out))
        step, hole, before = op.steps[0], op.holes[0], op.sides[0][0]
        runs: dict[str, _Runs] = {}
        if first:
            ci, pixels = self.data[1], prod(self.data[3:])
            co, results = self.out[1], prod(self.out[3:])
            runs["data"] = _Runs(
                pixels, n, planes, ci, deep, depth, step, hole, before,
                ci * depth * pixels, pixels, depth * pixels,
            )  # fmt: skip
            runs["out"] = _Runs(
                results, n, 1, co, planes, planes, 1, 1, 0,
                planes * co * results, co * results, results,
            )  # fmt: skip
        else:
            pixels, ci, co = prod(self.data[2:4]), self.data[4], self.out[4]
            taps = prod(self.weight[1:3])
            runs["data"] = _Runs(
                ci, n, planes, pixels, deep, depth, step, hole, before,
                depth * pixels * ci, pixels * ci, ci,
            )  # fmt: skip
            runs["weight"] = _Runs(
                ci * co, 1, 1, taps, deep, deep, 1, 1, 0, 0, taps * ci * co, ci * co
            )
        # With a single plane, or a single tap, some lie as those of images already.
        still = (deep, step, before, planes) == (1, 1, 0, depth)
        lie = {
            "data": still and (not first or depth == 1),
            "weight": deep == 1,
            "out": planes == 1,
        }
        return {name: each for name, each in runs.items() if not lie[name]}

    @property
    def copies(self) -> list[Copy]:
        """What is copied."""
        return [Copy(name, each.size, each.blocks) for name, each in self.runs.items()]

    def defines(self) -> Mapping[str, int | str]:
        """Return what the kernels that copy are parameterised by."""
        return {f"{name.upper()}_RUNS": each.text for name, each in self.runs.items()}


@dataclass(frozen=True)
class Spread(_Layer):
    """A transposed convolution: those of stride 1 for all phases of the result, woven together.

    Attributes:
        apart: whether phases are groups, which have the data where their filters begin, and not
            channels, whose filters have zeros where only those of another phase have taps: 16 taps
            for those of 4x4 with stride 2, not 36.
    """

    op: ops.Conv2dTranspose
    apart: bool = False

    @property
    def text(self) -> str:
        """The file of the kernels that copy."""
        return "conv2d_transpose.cu"

    @cached_property
    def axes(self) -> tuple[PhaseAxis, PhaseAxis]:
        """How rows and columns are convolved."""
        steps, sides, _ = self.op.moves
        rows, columns = (
            PhaseAxis.of(
                self.data[i + 2], self.out[i + 2], self.weight[i + 2], steps[i], sides[i][0]
            )
            for i in range(2)
        )
        return rows, columns

    @property
    def is_woven(self) -> bool:
        """Whether it can be: no more is cut off than filters reach beyond the data."""
        y, x = self.axes
        return min(*y.padding, *x.padding) >= 0 and prod(self.weight[2:]) <= MOST_TAPS

    @property
    def is_taken(self) -> bool:
        """Returns whether it can be woven, of images that are not too large for kernels."""
        return self.is_woven and super().is_taken

    @cached_property
    def images(self) -> Conv2d:
        """The convolution of images whose channels are phases."""
        (n, ci, h, w), (y, x), (sy, sx) = self.data, self.axes, self.op.moves[0]
        co = self.weight[1] * sy * sx
        if self.apart:
            (rows, columns), (high, wide) = self.results, self.phase_taps
            seen = (rows + high - 1, columns + wide - 1)
            return Conv2d(
                n, *seen, co, ci * sy * sx, high, wide, (1, 1), (0, 0), False, False,
                groups=sy * sx,
            )  # fmt: skip
        sides = (y.padding[0], x.padding[0], y.padding[1], x.padding[1])
        return Conv2d(n, h, w, co, ci, y.taps, x.taps, (1, 1), sides, False, False)

    @property
    def phase_taps(self) -> tuple[int, int]:
        """Rows and columns of taps of the filters of a phase."""
        if not self.apart:
            return self.axes[0].taps, self.axes[1].taps
        (sy, sx), (kh, kw) = self.op.moves[0], self.weight[2:]
        return common.ceil_div(kh, sy), common.ceil_div(kw, sx)

    @property
    def results(self) -> tuple[int, int]:
        """Rows and columns of the result of a phase."""
        (sy, sx), (h, w) = self.op.moves[0], self.out[2:]
        return common.ceil_div(h, sy), common.ceil_div(w, sx)

    @property
    def tiles(self) -> tuple[int, int]:
        """Input and output channels that a block takes which arranges filters."""
        ci, co, kh, kw = self.weight
        out = max(1, min(co, 64 // (kh * kw)))
        return max(1, min(ci, 32, FILTER_ROOM // (out * kh * kw + 1))), out

    @property
    def copies(self) -> list[Copy]:
        """What is copied: the weight, and but for a stride of 1 the result."""
        images, (ci, co) = self.images, self.tiles
        size = images.co * images.ci // images.groups * images.taps
        blocks = common.ceil_div(self.weight[0], ci) * common.ceil_div(self.weight[1], co)
        copies = [Copy("weight", size, blocks)]
        if self.apart:
            data = images.n * images.ci * images.h * images.w
            copies.append(Copy("data", data, blocks_for(data), early=True))
        if self.op.moves[0] != (1, 1):
            copies.append(Copy("out", images.outputs, blocks_for(prod(self.out)), early=True))
        return copies

    def defines(self) -> Mapping[str, int | str]:
        """Return what the kernels that copy are parameterised by."""
        (ci, co, kh, kw), (y, x) = self.weight, self.axes
        (sy, sx), (rows, columns), _ = self.op.moves
        woven: dict[str, int | str] = {}
        if (sy, sx) != (1, 1):
            woven |= common.defines(
                woven_h=self.out[2], woven_w=self.out[3], woven_images=self.out[0] * co,
                woven_rows=self.images.oh, woven_columns=self.images.ow,
            )  # fmt: skip
        high, wide = self.phase_taps
        firsts = (1 - high, 1 - wide) if self.apart else (y.first, x.first)
        if self.apart:
            woven |= common.defines(
                spread_n=self.data[0], spread_h=self.data[2], spread_w=self.data[3],
                spread_seen_h=self.images.h, spread_seen_w=self.images.w,
            )  # fmt: skip
        sizes = common.defines(
            spread_ci=ci, spread_co=co, spread_kh=kh, spread_kw=kw,
            spread_phase_h=high, spread_phase_w=wide, spread_sy=sy, spread_sx=sx,
            spread_apart=self.apart,
            spread_first_y=firsts[0], spread_first_x=firsts[1], spread_cut_y=rows[0],
            spread_cut_x=columns[0], spread_ci_tile=self.tiles[0], spread_co_tile=self.tiles[1],
        )  # fmt: skip
        return {**sizes, **woven}
