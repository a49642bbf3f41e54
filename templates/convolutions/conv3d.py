"""3-D convolutions of float32 as 2-D ones."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from math import prod

from autotune.graph import ops

from .. import common
from .conv2d_nhwc import Conv2dNhwc
from .conv2d_shape import Conv2d
from .via_conv2d import Copy, Layer, blocks_for
from .window_shape import Window


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
class Conv3d(Layer):
    """A 3-D convolution: the planes under a filter become channels of a 2-D one."""

    op: ops.Conv3d

    @property
    def channels_first(self) -> bool:
        """Whether the layout is NCDHW."""
        return self.op.data_layout == "NCDHW"

    @property
    def text(self) -> str:
        """The file of the kernels that copy."""
        return "conv3d_copies.cu"

    @cached_property
    def joined(self) -> int | None:
        """The first of two neighbouring pointwise axes (extent 1, stride 1, no padding), or None.

        The two are one axis of a 2-D convolution then, and nothing is copied.
        """
        taps = self.weight[2:] if self.channels_first else self.weight[:3]
        axes = zip(taps, self.op.steps, self.op.sides, strict=True)
        pointwise = [(tap, step, *sides) == (1, 1, 0, 0) for tap, step, sides in axes]
        return next((axis for axis in range(2) if pointwise[axis] and pointwise[axis + 1]), None)

    @cached_property
    def conv2d(self) -> Conv2d | Conv2dNhwc:
        """The 2-D convolution: an image for each plane of the result, or for each volume."""
        op, first, joined = self.op, self.channels_first, self.joined
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
        strides, sides, dilation = (
            (op.steps[y], op.steps[x]),
            (top, left, bottom, right),
            (op.holes[y], op.holes[x]),
        )
        if first:
            size = (taps[y], taps[x])
            return Conv2d(n, h, w, co, ci, *size, strides, sides, False, False, dilation=dilation)
        return Conv2dNhwc(n, h, w, co, ci, Window((taps[y], taps[x]), strides, sides, dilation))

    @cached_property
    def runs(self) -> dict[str, Runs]:
        """The copies of arrays whose layout differs."""
        if self.joined is not None:
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
        return [Copy(name, each.size, each.blocks) for name, each in self.runs.items()]

    def defines(self) -> Mapping[str, int | str]:
        """Return the parameters of the kernels that copy."""
        return {f"{name.upper()}_RUNS": each.text for name, each in self.runs.items()}
