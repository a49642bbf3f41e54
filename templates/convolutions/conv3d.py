"""3-D convolutions of float32 as 2-D ones."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from math import prod
from typing import cast

from autotune import Target
from autotune.graph import ops

from .. import common
from . import conv2d_float
from .conv2d_nhwc import Conv2dNhwc
from .conv2d_shape import Conv2d, Planes
from .via_conv2d import Copy, Layer, blocks_for
from .window_shape import Window

# How much longer than in images kernels take in place by windows of several cells that move by
# several: 64->29 by 3x3x3 of 2 on 2x7x56x56 took an H200 54.9 us, by estimate 31.6, and 34.9
# between copies. The factor sorts seven such layers by which way is faster.
SKIPPING = 1.5


@dataclass(frozen=True)
class Runs:
    """Copies of contiguous runs: the template parameters of ``conv3d_copies.cu``."""

    run: int
    batch: int
    positions: int
    inner: int
    taps: int
    depth: int
    stride: int
    dilation: int
    padding: int
    batch_stride: int
    depth_stride: int
    inner_stride: int

    @property
    def size(self) -> int:
        """Elements of the copy."""
        return self.run * self.batch * self.positions * self.inner * self.taps

    @property
    def blocks(self) -> int:
        """Blocks that copy it."""
        return blocks_for(self.size, common.widest(self.run))

    @property
    def text(self) -> str:
        """Template arguments."""
        numbers = (
            self.run, self.size // self.run, self.positions, self.inner, self.taps, self.depth,
            self.stride, self.dilation, self.padding,
            self.batch_stride, self.depth_stride, self.inner_stride,
        )  # fmt: skip
        return ", ".join(map(str, numbers))


@dataclass(frozen=True)
class Samples:
    """A copy of what strides leave: the template parameters of ``conv3d_samples.cu``."""

    volumes: int
    results: tuple[int, ...]
    inner: int
    extents: tuple[int, ...]
    steps: tuple[int, ...]

    @property
    def size(self) -> int:
        """Elements of the copy."""
        return self.volumes * prod(self.results) * self.inner

    @property
    def blocks(self) -> int:
        """Blocks that copy it."""
        return blocks_for(self.size, common.widest(self.inner))

    @property
    def text(self) -> str:
        """Template arguments."""
        count = self.size // self.inner
        numbers = (count, *self.results, self.inner, *self.extents, *self.steps)
        return ", ".join(map(str, numbers))


@dataclass(frozen=True)
class Conv3d(Layer):
    """A 3-D convolution: the planes under a filter become channels of a 2-D one.

    Where two neighbouring axes are pointwise they are one axis of a 2-D convolution, after a copy
    of what their strides leave, if any.

    Attributes:
        in_place: whether kernels read and write the planes of volumes where they lie, and
            nothing is copied.
    """

    op: ops.Conv3d
    in_place: bool = False

    @property
    def channels_first(self) -> bool:
        """Whether the layout is NCDHW."""
        return self.op.data_layout == "NCDHW"

    @property
    def text(self) -> str:
        """The file of the kernels that copy."""
        return "conv3d_samples.cu" if self.sampled else "conv3d_copies.cu"

    @property
    def taps(self) -> tuple[int, ...]:
        """Extents of the filters."""
        return self.weight[2:] if self.channels_first else self.weight[:3]

    @property
    def extents(self) -> tuple[int, ...]:
        """Planes, rows and columns of the data."""
        return self.data[2:] if self.channels_first else self.data[1:4]

    @property
    def pointwise(self) -> list[bool]:
        """Whether filters have an extent of 1 along an axis, without padding."""
        axes = zip(self.taps, self.op.sides, strict=True)
        return [(tap, *sides) == (1, 0, 0) for tap, sides in axes]

    @cached_property
    def joined(self) -> int | None:
        """The first of two neighbouring pointwise axes with a stride of 1, or None.

        The two are one axis of a 2-D convolution then, and nothing is copied.
        """
        plain = [
            alone and step == 1 for alone, step in zip(self.pointwise, self.op.steps, strict=True)
        ]
        return next((axis for axis in range(2) if plain[axis] and plain[axis + 1]), None)

    def faster(self, target: Target) -> Conv3d:
        """Return the convolution in place of volumes if that is estimated to be faster."""
        placed = replace(self, in_place=True)
        if not (self.channels_first and self.copies and placed.is_supported):
            return self
        return min(self, placed, key=lambda way: way.cycles(target))

    def cycles(self, target: Target) -> float:
        """Return the estimate of the untuned choice of the 2-D convolution, with the copies."""
        found = conv2d_float.cycles(cast(Conv2d, self.conv2d), target)
        longer = SKIPPING if self.in_place and self.skips else 1.0
        return longer * found + self.copying_cycles(target)

    @property
    def skips(self) -> bool:
        """Whether windows of several cells of a plane move by several cells."""
        return max(self.op.steps[1:]) > 1 and max(self.taps[1:]) > 1

    @cached_property
    def sampled(self) -> Conv3d | None:
        """The convolution of what strides along pointwise axes leave, if two then are joined."""
        alone = self.pointwise
        if self.in_place or self.joined is not None or not (alone[1] and (alone[0] or alone[2])):
            return None
        results = self.out[2:] if self.channels_first else self.out[1:4]
        axes = list(zip(alone, results, self.extents, self.op.steps, strict=True))
        extents = tuple(result if one else extent for one, result, extent, _ in axes)
        op = replace(self.op, strides=tuple(1 if one else step for one, _, _, step in axes))
        first, last = (2, 5) if self.channels_first else (1, 4)
        return replace(self, op=op, data=(*self.data[:first], *extents, *self.data[last:]))

    @cached_property
    def samples(self) -> Samples | None:
        """The copy of what strides leave, if there is one."""
        if self.sampled is None:
            return None
        axes = zip(self.op.steps, self.sampled.op.steps, strict=True)
        steps = tuple(before // after for before, after in axes)
        (n, channels), first = (self.data[0], self.sampled.channels), self.channels_first
        volumes, inner = (n * channels, 1) if first else (n, channels)
        return Samples(volumes, self.sampled.extents, inner, self.extents, steps)

    @property
    def channels(self) -> int:
        """Input channels."""
        return self.data[1] if self.channels_first else self.data[4]

    @cached_property
    def conv2d(self) -> Conv2d | Conv2dNhwc:
        """The 2-D convolution: an image for each plane of the result, or for each volume."""
        if self.sampled is not None:
            return self.sampled.conv2d
        op, first, joined = self.op, self.channels_first, self.joined
        extents, taps = self.extents, self.taps
        (co, ci), n = self.weight[:2] if first else self.weight[:2:-1], self.data[0]
        y, x = (0, 2) if joined == 1 else (1, 2)
        if joined is None:
            n, ci = n * self.out[2 if first else 1], ci * taps[0]
            h, w = extents[1:]
        else:
            h = extents[0] * (extents[1] if joined == 0 else 1)
            w = extents[2] * (extents[1] if joined == 1 else 1)
        (top, bottom), (left, right) = op.sides[y], op.sides[x]
        strides, sides, dilation = (
            (op.steps[y], op.steps[x]),
            (top, left, bottom, right),
            (op.holes[y], op.holes[x]),
        )
        if first:
            planes = Planes()
            if self.in_place:
                before, _ = op.sides[0]
                planes = Planes(
                    self.data[2], self.out[2], taps[0], op.steps[0], before, op.holes[0]
                )
            return Conv2d(
                n, h, w, co, ci, taps[y], taps[x], strides, sides, False, False,
                dilation=dilation, planes=planes,
            )  # fmt: skip
        return Conv2dNhwc(n, h, w, co, ci, Window((taps[y], taps[x]), strides, sides, dilation))

    @cached_property
    def runs(self) -> dict[str, Runs]:
        """The copies of arrays whose layout differs."""
        if self.in_place or self.joined is not None:
            return {}
        op, first = self.op, self.channels_first
        n, deep = self.data[0], self.weight[2 if first else 0]
        depth, planes = (shape[2 if first else 1] for shape in (self.data, self.out))
        stride, dilation, padding = op.steps[0], op.holes[0], op.sides[0][0]
        runs: dict[str, Runs] = {}
        if first:
            ci, pixels = self.data[1], prod(self.data[3:])
            co, results = self.out[1], prod(self.out[3:])
            runs["data"] = Runs(
                pixels, n, planes, ci, deep, depth, stride, dilation, padding,
                ci * depth * pixels, pixels, depth * pixels,
            )  # fmt: skip
            runs["out"] = Runs(
                results, n, 1, co, planes, planes, 1, 1, 0,
                planes * co * results, co * results, results,
            )  # fmt: skip
        else:
            pixels, ci, co = prod(self.data[2:4]), self.data[4], self.out[4]
            taps = prod(self.weight[1:3])
            runs["data"] = Runs(
                ci, n, planes, pixels, deep, depth, stride, dilation, padding,
                depth * pixels * ci, pixels * ci, ci,
            )  # fmt: skip
            runs["weight"] = Runs(
                ci * co, 1, 1, taps, deep, deep, 1, 1, 0, 0, taps * ci * co, ci * co
            )
        # With a single plane or a single tap some have the layout of a 2-D convolution already.
        unchanged = (deep, stride, padding, planes) == (1, 1, 0, depth)
        kept = {
            "data": unchanged and (not first or depth == 1),
            "weight": deep == 1,
            "out": planes == 1,
        }
        return {name: each for name, each in runs.items() if not kept[name]}

    @property
    def copies(self) -> list[Copy]:
        """The copies around it."""
        if self.samples is not None:
            return [Copy("data", self.samples.size, self.samples.blocks)]
        return [Copy(name, each.size, each.blocks) for name, each in self.runs.items()]

    def defines(self) -> Mapping[str, int | str]:
        """Return the parameters of the kernels that copy."""
        if self.samples is not None:
            return {"DATA_SAMPLES": self.samples.text}
        return {f"{name.upper()}_RUNS": each.text for name, each in self.runs.items()}
