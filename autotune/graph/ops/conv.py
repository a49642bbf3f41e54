"""Convolutions over one, two and three axes, whole, in groups and depthwise."""

from __future__ import annotations

from collections.abc import Sequence
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
from autotune.graph.ops.sums import rounded, sums_of
from autotune.graph.types import Array, TensorType
from autotune.te.tensor import Tensor
from autotune.topi.nn import conv2d_transpose_nchw, conv3d

_FILTERS: dict[int, dict[str, tuple[str, ...]]] = {
    1: {"NCW": ("OIW",), "NWC": ("WIO",)},
    2: {"NCHW": ("OIHW",), "NHWC": ("HWIO", "HWOI")},
    3: {"NCDHW": ("OIDHW",), "NDHWC": ("DHWIO",)},
}


@dataclass(frozen=True)
class Convolution(Operator):
    """Convolve images by filters; inputs are the data and the weight.

    Attributes:
        strides: steps of the window.
        padding: zeros around the images: one number, one an axis, or all before and all after.
        dilation: distances of the filter's elements.
        groups: into how many the channels are divided; filters have channels of one group.
        data_layout: such as ``NCHW``.
        kernel_layout: such as ``OIHW``; ``HWOI`` where every channel has filters of its own.
    """

    pattern: ClassVar[Pattern] = Pattern.OUT_ELEMWISE_FUSABLE
    dims: ClassVar[int] = 2
    strides: tuple[int, ...] = (1,)
    padding: tuple[int, ...] = (0,)
    dilation: tuple[int, ...] = (1,)
    groups: int = 1
    data_layout: str = "NCHW"
    kernel_layout: str = "OIHW"

    @property
    def sides(self) -> tuple[tuple[int, int], ...]:
        """Padding before and after each axis."""
        return sides_of(self, self.padding, self.dims)

    @property
    def steps(self) -> tuple[int, ...]:
        """Stride of each axis."""
        return each(self, "strides", self.strides, self.dims)

    @property
    def holes(self) -> tuple[int, ...]:
        """Dilation of each axis."""
        return each(self, "dilation", self.dilation, self.dims)

    def is_depthwise(self, data: TensorType, weight: TensorType) -> bool:
        """Returns whether each channel has its own filter."""
        channels = by_letter(self.data_layout, data.shape)["C"]
        filters = by_letter(self.kernel_layout, weight.shape)
        return self.groups > 1 and self.groups == channels == filters["O"]

    def infer(self, *inputs: TensorType) -> TensorType:
        """Return the type of the images that come out."""
        self.take(inputs, 2)
        data, weight = inputs
        check_layout(self, "data_layout", self.data_layout, DATA[self.dims])
        allowed = _FILTERS[self.dims][self.data_layout]
        check_layout(self, "kernel_layout", self.kernel_layout, allowed)
        ndim = self.dims + 2
        if data.ndim != ndim or weight.ndim != ndim or data.dtype != weight.dtype:
            self.refuse("data and weight", f"of {ndim} dimensions and one dtype", tuple(inputs))
        images = by_letter(self.data_layout, data.shape)
        filters = by_letter(self.kernel_layout, weight.shape)
        if images["C"] != filters["I"] * self.groups or filters["O"] % self.groups:
            expected = f"of {images['C']} input channels in {self.groups} groups"
            self.refuse("weight", expected, weight)
        out = {**images, "C": filters["O"]}
        numbers = zip(SPATIAL[self.dims], self.steps, self.sides, self.holes, strict=True)
        for axis, step, (before, after), hole in numbers:
            room = images[axis] + before + after - (filters[axis] - 1) * hole - 1
            if room < 0:
                apart = f", with its elements {hole} apart," if hole > 1 else ""
                self.refuse("weight", f"no larger{apart} than the padded data {data}", weight)
            out[axis] = room // step + 1
        return TensorType(arrange(self.data_layout, out), data.dtype)

    def flop(self, *types: TensorType) -> float:
        """Return two operations for each product."""
        _, weight, out = types
        filters = by_letter(self.kernel_layout, weight.shape)
        return 2.0 * out.size * weight.size / filters["O"]

    def reference(self, *inputs: Array) -> Array:
        """Convolve in numpy."""
        spatial = SPATIAL[self.dims]
        data = change_layout(inputs[0], self.data_layout, "NC" + spatial)
        weight = change_layout(inputs[1], self.kernel_layout, "OI" + spatial)
        out = convolve(data, weight, self.steps, self.sides, self.holes, self.groups)
        return change_layout(out, "NC" + spatial, self.data_layout)


def convolve(
    data: Array,
    weight: Array,
    steps: Sequence[int],
    sides: Sequence[tuple[int, int]],
    holes: Sequence[int],
    groups: int = 1,
) -> Array:
    """Convolve data [N, C, ...] by weight [O, I, ...] in numpy."""
    extents = weight.shape[2:]
    padded = np.pad(data, ((0, 0), (0, 0), *sides))
    reach = [(n - 1) * hole + 1 for n, hole in zip(extents, holes, strict=True)]
    axes = tuple(range(2, data.ndim))
    windows = np.lib.stride_tricks.sliding_window_view(padded, reach, axis=axes)
    every = tuple(slice(None, None, n) for n in (1, 1, *steps, *holes))
    windows, over = windows[every], [1, *range(data.ndim, data.ndim + len(axes))]
    parts = []
    for own, filters in zip(
        np.split(windows, groups, axis=1), np.split(weight, groups), strict=True
    ):
        part = np.tensordot(own, filters, axes=(over, list(range(1, weight.ndim))))
        parts.append(np.moveaxis(part, -1, 1))
    return np.concatenate(parts, axis=1)


@dataclass(frozen=True)
class Conv2d(Convolution):
    """Convolve images of two dimensions; see `Convolution`."""

    name: ClassVar[str] = "nn.conv2d"

    def compute(self, *inputs: Tensor) -> Tensor:
        """Convolve by the operator of the layout."""
        data, weight = inputs
        return rounded(self._sums(data, weight, sums_of(data.dtype)), data.dtype)

    def _sums(self, data: Tensor, weight: Tensor, kind: str) -> Tensor:
        """Return the sums of products, in a type."""
        (top, bottom), (left, right) = self.sides
        rest = (list(self.steps), [top, left, bottom, right], list(self.holes))
        types = [TensorType.of(one) for one in (data, weight)]
        if self.is_depthwise(*types):
            if self.data_layout == "NCHW":
                return topi.nn.depthwise_conv2d_nchw(data, weight, *rest, kind)
            if self.kernel_layout == "HWOI":
                return topi.nn.depthwise_conv2d_nhwc(data, weight, *rest, kind)
        if self.groups > 1:
            if self.data_layout == "NCHW":
                return topi.nn.group_conv2d_nchw(data, weight, *rest, self.groups, kind)
            if self.kernel_layout == "HWIO":
                return topi.nn.group_conv2d_nhwc(data, weight, *rest, self.groups, kind)
            expected = "NCHW, HWIO, or HWOI with one filter a channel, where there are groups"
            self.refuse("layouts", expected, (self.data_layout, self.kernel_layout))
        if self.data_layout == "NCHW":
            return topi.nn.conv2d_nchw(data, weight, *rest, kind)
        return topi.nn.conv2d_nhwc(data, weight, *rest, kind)


@dataclass(frozen=True)
class Conv3d(Convolution):
    """Convolve images of three dimensions; see `Convolution`."""

    name: ClassVar[str] = "nn.conv3d"
    dims: ClassVar[int] = 3
    data_layout: str = "NCDHW"
    kernel_layout: str = "OIDHW"

    def compute(self, *inputs: Tensor) -> Tensor:
        """Convolve."""
        if self.groups > 1:
            self.refuse("groups", "1, as no kernel is there for others", self.groups)
        data, weight = inputs
        total = conv3d(
            data, weight, self.steps, self.sides, self.holes, self.data_layout,
            self.kernel_layout, sums_of(data.dtype),
        )  # fmt: skip
        return rounded(total, data.dtype)


@dataclass(frozen=True)
class Conv2dTranspose(Operator):
    """Spread images by filters: the gradient of a convolution; NCHW, weight [in, out, h, w].

    Attributes:
        strides: distances at which the elements of the data are spread.
        padding: what is cut off around: one number, one an axis, or all before and all after.
        output_padding: rows and columns added below and to the right.
    """

    name: ClassVar[str] = "nn.conv2d_transpose"
    pattern: ClassVar[Pattern] = Pattern.OUT_ELEMWISE_FUSABLE
    strides: tuple[int, ...] = (1,)
    padding: tuple[int, ...] = (0,)
    output_padding: tuple[int, ...] = (0,)

    @property
    def moves(self) -> tuple[tuple[int, ...], tuple[tuple[int, int], ...], tuple[int, int]]:
        """Strides, sides and output padding of both axes."""
        more = tuple(self.output_padding) * (2 if len(self.output_padding) == 1 else 1)
        steps = each(self, "strides", self.strides, 2)
        if len(more) != 2 or any(not 0 <= n < s for n, s in zip(more, steps, strict=True)):
            self.refuse("output_padding", "less than the strides", self.output_padding)
        return steps, sides_of(self, self.padding, 2), (more[0], more[1])

    def infer(self, *inputs: TensorType) -> TensorType:
        """Return the type of the images that come out."""
        self.take(inputs, 2)
        data, weight = inputs
        if data.ndim != 4 or weight.ndim != 4 or data.shape[1] != weight.shape[0]:
            self.refuse("weight", f"[in, out, height, width] for data {data}", weight)
        steps, sides, more = self.moves
        spread = [
            (n - 1) * step + k - before - after + extra
            for n, k, step, (before, after), extra in zip(
                data.shape[2:], weight.shape[2:], steps, sides, more, strict=True
            )
        ]
        if min(spread) < 1:
            self.refuse("padding", f"less than what {weight} spreads {data} to", self.padding)
        return TensorType((data.shape[0], weight.shape[1], *spread), data.dtype)

    def compute(self, *inputs: Tensor) -> Tensor:
        """Spread the data, and convolve it by the flipped filters."""
        data, weight = inputs
        steps, ((top, bottom), (left, right)), more = self.moves
        sides = (top, left, bottom, right)
        kind = sums_of(data.dtype)
        total = conv2d_transpose_nchw(data, weight, steps, sides, kind, more)
        return rounded(total, data.dtype)

    def reference(self, *inputs: Array) -> Array:
        """Spread the data, and convolve it by the flipped filters."""
        data, weight = inputs
        steps, sides, more = self.moves
        n, c, h, w = data.shape
        gaps = ((0, 0), (0, 0), (0, 0), (0, steps[0] - 1), (0, 0), (0, steps[1] - 1))
        spread = np.pad(data[:, :, :, None, :, None], gaps)
        spread = spread.reshape(n, c, h * steps[0], w * steps[1])
        spread = spread[:, :, : (h - 1) * steps[0] + 1, : (w - 1) * steps[1] + 1]
        # What is cut off may be more than the filter reaches.
        around = [
            (k - 1 - before, k - 1 - after + extra)
            for k, (before, after), extra in zip(weight.shape[2:], sides, more, strict=True)
        ]
        (top, bottom), (left, right) = around
        spread = spread[:, :, max(-top, 0) :, max(-left, 0) :]
        spread = spread[:, :, : min(bottom, 0) or None, : min(right, 0) or None]
        around = [(max(b, 0), max(a, 0)) for b, a in around]
        flipped = weight[:, :, ::-1, ::-1].transpose(1, 0, 2, 3)
        return convolve(spread, flipped, (1, 1), around, (1, 1))

    def flop(self, *types: TensorType) -> float:
        """Return two operations for each product of an element and a filter's."""
        data, weight, _ = types
        return 2.0 * data.size * weight.size / weight.shape[0]
