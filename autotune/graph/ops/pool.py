"""Pooling over windows and over whole images, of two and three dimensions."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from autotune import topi
from autotune.graph.operator import Operator, Pattern
from autotune.graph.ops.layout import (
    DATA,
    SPATIAL,
    arrange,
    by_letter,
    change_layout,
    check_layout,
    each,
)
from autotune.graph.ops.layout import sides as sides_of
from autotune.graph.ops.sums import summed
from autotune.graph.types import Array, TensorType
from autotune.te.tensor import Tensor
from autotune.topi.nn import global_pool3d


@dataclass(frozen=True)
class Pool2d(Operator):
    """Take the maximum or the average of windows.

    Attributes:
        pool_size: extents of the window.
        strides: distances between windows.
        padding: padding of the images: one number, one per axis, or all before and all after.
        dilation: distances between the window's elements.
        layout: ``NCHW`` or ``NHWC``.
        ceil_mode: whether the last window may extend beyond the padding or, as in TVM, lie
            completely in it; PyTorch omits such windows.
        count_include_pad: whether an average counts the padding.
    """

    pattern: ClassVar[Pattern] = Pattern.OUT_ELEMWISE_FUSABLE
    kind: ClassVar[str] = "max"
    pool_size: tuple[int, ...] = (1,)
    strides: tuple[int, ...] = (1,)
    padding: tuple[int, ...] = (0,)
    dilation: tuple[int, ...] = (1,)
    layout: str = "NCHW"
    ceil_mode: bool = False
    count_include_pad: bool = False

    def windows(self) -> list[tuple[int, int, tuple[int, int], int]]:
        """Return extent, step, padding and distance for each axis, height first."""
        two = [each(self, n, getattr(self, n), 2) for n in ("pool_size", "strides", "dilation")]
        sides = sides_of(self, self.padding, 2)
        if self.ceil_mode:
            sides = tuple((b, a + s - 1) for (b, a), s in zip(sides, two[1], strict=True))
        return list(zip(two[0], two[1], sides, two[2], strict=True))

    def infer(self, *inputs: TensorType) -> TensorType:
        """Return the type of the smaller images."""
        self.take(inputs, 1)
        check_layout(self, "layout", self.layout, DATA[2])
        if inputs[0].ndim != 4:
            self.refuse("data", "of 4 dimensions", inputs[0])
        images = by_letter(self.layout, inputs[0].shape)
        for axis, (extent, step, (before, after), hole) in zip("HW", self.windows(), strict=True):
            room = images[axis] + before + after - (extent - 1) * hole - 1
            if room < 0:
                self.refuse("pool_size", f"no larger than the padded {inputs[0]}", self.pool_size)
            images[axis] = room // step + 1
        return TensorType(arrange(self.layout, images), inputs[0].dtype)

    def compute(self, *inputs: Tensor) -> Tensor:
        """Pool."""
        (top, bottom), (left, right) = sides_of(self, self.padding, 2)

        def pooled(data: Tensor) -> Tensor:
            return topi.nn.pool2d(
                data,
                each(self, "pool_size", self.pool_size, 2),
                each(self, "strides", self.strides, 2),
                each(self, "dilation", self.dilation, 2),
                [top, left, bottom, right],
                self.kind,
                self.ceil_mode,
                self.layout,
                self.count_include_pad,
            )

        return pooled(inputs[0]) if self.kind == "max" else summed(pooled, inputs[0])

    def reference(self, *inputs: Array) -> Array:
        """Pool."""
        data = change_layout(inputs[0], self.layout, "NCHW")
        numbers = self.windows()

        def windows(array: Array, outside: float) -> Array:
            around = ((0, 0), (0, 0), *[side for _, _, side, _ in numbers])
            padded = np.pad(array, around, constant_values=outside)
            reach = [(extent - 1) * hole + 1 for extent, _, _, hole in numbers]
            view = np.lib.stride_tricks.sliding_window_view(padded, reach, axis=(2, 3))
            steps, holes = [n[1] for n in numbers], [n[3] for n in numbers]
            return view[:, :, :: steps[0], :: steps[1], :: holes[0], :: holes[1]]

        if self.kind == "max":
            least = np.iinfo(data.dtype).min if data.dtype.kind in "iu" else -np.inf
            least = False if data.dtype.kind == "b" else least
            out = windows(data, least).max(axis=(4, 5))
        else:
            total = windows(data, 0).sum(axis=(4, 5))
            present = windows(np.ones_like(data), float(self.count_include_pad)).sum(axis=(4, 5))
            out = total / np.maximum(present, 1)
        return change_layout(out, "NCHW", self.layout)

    def flop(self, *types: TensorType) -> float:
        """Return one operation for each element of each window."""
        size = each(self, "pool_size", self.pool_size, 2)
        return float(types[-1].size * size[0] * size[1])


@dataclass(frozen=True)
class MaxPool2d(Pool2d):
    """Take the maximum of windows; see `Pool2d`."""

    name: ClassVar[str] = "nn.max_pool2d"


@dataclass(frozen=True)
class AvgPool2d(Pool2d):
    """Take the average of windows; see `Pool2d`."""

    name: ClassVar[str] = "nn.avg_pool2d"
    kind: ClassVar[str] = "avg"


@dataclass(frozen=True)
class GlobalPool(Operator):
    """Pool whole images to one element a channel."""

    pattern: ClassVar[Pattern] = Pattern.OUT_ELEMWISE_FUSABLE
    kind: ClassVar[str] = "avg"
    dims: ClassVar[int] = 2
    layout: str = "NCHW"

    def infer(self, *inputs: TensorType) -> TensorType:
        """Return the type with images of one element."""
        self.take(inputs, 1)
        check_layout(self, "layout", self.layout, DATA[self.dims])
        if inputs[0].ndim != self.dims + 2:
            self.refuse("data", f"of {self.dims + 2} dimensions", inputs[0])
        images = by_letter(self.layout, inputs[0].shape)
        ones = dict.fromkeys(SPATIAL[self.dims], 1)
        return TensorType(arrange(self.layout, {**images, **ones}), inputs[0].dtype)

    def compute(self, *inputs: Tensor) -> Tensor:
        """Pool."""
        whole = global_pool3d if self.dims == 3 else topi.nn.global_pool

        def pooled(data: Tensor) -> Tensor:
            return whole(data, self.kind, self.layout)

        return pooled(inputs[0]) if self.kind == "max" else summed(pooled, inputs[0])

    def reference(self, *inputs: Array) -> Array:
        """Pool."""
        axes = tuple(self.layout.index(letter) for letter in SPATIAL[self.dims])
        reduce = np.max if self.kind == "max" else np.mean
        return np.asarray(reduce(inputs[0], axis=axes, keepdims=True))

    def flop(self, *types: TensorType) -> float:
        """Return one operation for each element."""
        return float(types[0].size)


@dataclass(frozen=True)
class GlobalAvgPool2d(GlobalPool):
    """Take the average of whole images."""

    name: ClassVar[str] = "nn.global_avg_pool2d"


@dataclass(frozen=True)
class GlobalMaxPool2d(GlobalPool):
    """Take the maximum of whole images."""

    name: ClassVar[str] = "nn.global_max_pool2d"
    kind: ClassVar[str] = "max"


@dataclass(frozen=True)
class GlobalAvgPool3d(GlobalPool):
    """Take the average of whole images of three dimensions."""

    name: ClassVar[str] = "nn.global_avg_pool3d"
    dims: ClassVar[int] = 3
    layout: str = "NCDHW"
