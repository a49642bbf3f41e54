"""Convolutions that read images at moved places: DeformConv of ONNX and torchvision."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from autotune.errors import GraphError
from autotune.graph import Value, apply, made_at, ops
from autotune.importers.grid import GridSampler


@dataclass(frozen=True)
class DeformedConvolution:
    """Convolves images [n, c, height, width] that are read at places which the data move.

    As in Zhu et al., "Deformable ConvNets v2" (2018): each number of a window is interpolated
    between four pixels, where an offset from its own place says, and may have a factor.

    Attributes:
        strides, dilations: of windows, for rows and columns.
        padding: rows and columns of zeros, before the image and after it.
        groups: of channels, as those of a convolution.
        offset_groups: groups of channels that have offsets of their own.
        origin: the place in the model.
    """

    strides: tuple[int, int]
    dilations: tuple[int, int]
    padding: tuple[int, int, int, int]
    groups: int
    offset_groups: int
    origin: str

    def convolve(self, x: Value, weight: Value, offset: Value, mask: Value | None) -> Value:
        """Return the images; offsets are pairs of numbers for each place of a window, rows first.

        Args:
            x: images.
            weight: filters [out, c / groups, rows, columns].
            offset: [n, offset_groups * rows * columns * 2, ...], of the extents of the result.
            mask: factors [n, offset_groups * rows * columns, ...]; None for ones.
        """
        batch = x.shape[0]
        sizes = self._sizes(x, weight)
        count = self.offset_groups * math.prod(weight.shape[2:])
        self._check(x, weight, "offset", offset, (batch, 2 * count, *sizes))
        if mask is not None:
            self._check(x, weight, "mask", mask, (batch, count, *sizes))
        with made_at(self.origin):
            return self._convolved(x, weight, offset, mask, sizes)

    def _convolved(
        self, x: Value, weight: Value, offset: Value, mask: Value | None, sizes: Sequence[int]
    ) -> Value:
        batch = x.shape[0]
        columns = self._columns(x, weight.shape[2:], offset, sizes)
        if mask is not None:
            shape = (batch * self.offset_groups, 1, *columns.shape[2:])
            columns = columns * apply(ops.Reshape(shape), mask)
        # A window's numbers are channels: what is left is to convolve single pixels.
        rows = weight.shape[1] * math.prod(weight.shape[2:])
        flat = apply(ops.Reshape((batch, self.groups * rows, *sizes)), columns)
        filters = apply(ops.Reshape((weight.shape[0], rows, 1, 1)), weight)
        return apply(ops.Conv2d(groups=self.groups), flat, filters)

    def _columns(
        self, x: Value, kernel: Sequence[int], offset: Value, sizes: Sequence[int]
    ) -> Value:
        """Return the numbers of each window: [n * offset_groups, c / offset_groups, ...]."""
        batch, channels, *extents = x.shape
        groups = self.offset_groups
        images = apply(ops.Reshape((batch * groups, channels // groups, *extents)), x)
        moved = apply(ops.Reshape((batch * groups, math.prod(kernel), 2, *sizes)), offset)
        places = []
        for axis in range(2):
            cut = ops.StridedSlice((0, 0, axis), (*moved.shape[:2], axis + 1))
            own = apply(ops.Reshape((*moved.shape[:2], *sizes)), apply(cut, moved))
            places.append(own + self._places(axis, kernel, sizes).astype(offset.dtype))
        return GridSampler("bilinear", "zeros", True, self.origin).at(images, places)

    def _places(self, axis: int, kernel: Sequence[int], sizes: Sequence[int]) -> np.ndarray:
        """Return where windows read along an axis if nothing is moved: [1, places, ...]."""
        inside = np.indices(kernel)[axis].reshape(1, -1, 1, 1) * self.dilations[axis]
        begin = np.indices(sizes)[axis][None, None] * self.strides[axis] - self.padding[axis]
        return np.asarray(inside + begin)

    def _sizes(self, x: Value, weight: Value) -> tuple[int, ...]:
        """Return the extents of the result."""
        if x.type.ndim != 4 or weight.type.ndim != 4:
            raise GraphError(
                f"{self.origin}: expected images and filters of four dimensions, got {x.type} "
                f"and {weight.type}"
            )
        channels, out = x.shape[1], weight.shape[0]
        fits = weight.shape[1] * self.groups == channels and out % self.groups == 0
        if not fits or channels % self.offset_groups:
            raise GraphError(
                f"{self.origin}: channels must be multiples of {self.groups} groups and of "
                f"{self.offset_groups} groups of offsets, got {x.type} and filters {weight.type}"
            )
        before, after = self.padding[:2], self.padding[2:]
        numbers = zip(
            x.shape[2:], weight.shape[2:], self.strides, self.dilations, before, after, strict=True
        )
        sizes = tuple([(n + a + b - (k - 1) * d - 1) // s + 1 for n, k, s, d, a, b in numbers])
        if min(sizes) < 1:
            raise GraphError(
                f"{self.origin}: filters {weight.type} are larger than the images {x.type}"
            )
        return sizes

    def _check(
        self, x: Value, weight: Value, name: str, given: Value, shape: tuple[int, ...]
    ) -> None:
        if given.shape != shape:
            raise GraphError(
                f"{self.origin}: {name} must have shape {list(shape)} for images {x.type} and "
                f"filters {weight.type}, got {given.type}"
            )
