"""Regions of images, interpolated on a grid of their own: RoiAlign of ONNX and torchvision."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from autotune.errors import GraphError
from autotune.graph import Constant, Operator, Value, apply, made_at, ops

MODES = ("avg", "max")
_ALL = 2**30


@dataclass(frozen=True)
class RegionReader:
    """Reads regions of images [n, channels, height, width]: [regions, channels, rows, columns].

    As in He et al., "Mask R-CNN" (2017): each of the rows x columns is the mean of ``samples`` x
    ``samples`` points, interpolated between four pixels.

    Attributes:
        rows, columns: of a result.
        samples: along an axis, from 1 on.
        scale: of coordinates of regions.
        half_pixel: whether pixels have their centre at 0.5; else regions have an extent of 1 at
            least.
        mode: one of `MODES`; the maximum is that of all weighted pixels, as in ONNX.
        origin: the place in the model.
    """

    rows: int
    columns: int
    samples: int
    scale: float
    half_pixel: bool
    mode: str
    origin: str

    def __post_init__(self) -> None:
        if self.mode not in MODES or min(self.rows, self.columns) < 1:
            raise GraphError(
                f"{self.origin}: mode must be one of {', '.join(MODES)} and sizes at least 1, got "
                f"{self.mode!r} and {(self.rows, self.columns)}"
            )
        if self.samples < 1:
            raise GraphError(
                f"{self.origin}: the number of samples must be at least 1, got {self.samples}: "
                "it would follow from the extents of each region, which are data"
            )

    def read(self, x: Value, regions: Value, images: Value) -> Value:
        """Return the regions (left, top, right, bottom) of the images with these numbers."""
        number = regions.shape[0]
        if x.type.ndim != 4 or regions.shape != (number, 4) or images.shape != (number,):
            raise GraphError(
                f"{self.origin}: expected images of four dimensions, regions [n, 4] and n numbers "
                f"of images, got {x.type}, {regions.type} and {images.type}"
            )
        if x.type.size >= _ALL:
            raise GraphError(f"{self.origin}: images must have less than 2^30 elements")
        with made_at(self.origin):
            return self._interpolated(x, regions, images)

    def _interpolated(self, x: Value, regions: Value, images: Value) -> Value:
        regions = regions.astype("float64" if regions.dtype == "float64" else "float32")
        down = self._taps(regions, 1, self.rows, x.shape[2])
        across = self._taps(regions, 0, self.columns, x.shape[3])
        first = self._first(images, x)
        taps = [
            self._tap(x, first, mine, other, (regions.shape[0], x.shape[1]))
            for mine in down
            for other in across
        ]
        joins: Operator = ops.Add() if self.mode == "avg" else ops.Maximum()
        total = taps[0]
        for each in taps[1:]:
            total = apply(joins, total, each)
        # Axes 3 and 5 are the points of a result.
        points: Operator = ops.Mean((3, 5)) if self.mode == "avg" else ops.Max((3, 5))
        return apply(points, total).astype(x.dtype)

    def _edge(self, regions: Value, column: int) -> Value:
        """Return where all regions begin or end along an axis: [regions, 1, 1]."""
        number = regions.shape[0]
        part = apply(ops.StridedSlice((0, column), (number, column + 1)), regions)
        scaled = apply(ops.Reshape((number, 1, 1)), part) * self.scale
        return scaled - 0.5 if self.half_pixel else scaled

    def _taps(
        self, regions: Value, axis: int, count: int, size: int
    ) -> tuple[tuple[Value, Value], tuple[Value, Value]]:
        """Return the lower and the upper pixel of each point along an axis, and their weights.

        They are of the shape [regions, count, samples].
        """
        begin, end = self._edge(regions, axis), self._edge(regions, axis + 2)
        extent = end - begin
        if not self.half_pixel:
            extent = apply(ops.Maximum(), extent, Constant.of(np.asarray(1.0, extent.dtype)))
        inside = (np.arange(self.samples) + 0.5) / self.samples
        parts = (np.arange(count)[:, None] + inside[None, :]) / count
        far = extent * parts[None].astype(extent.dtype)
        where = begin + far
        seen = apply(ops.LogicalAnd(), where >= -1.0, where <= size)
        weight = seen.astype(where.dtype)
        where = apply(ops.Clip(0.0, float(size - 1)), where)
        low = apply(ops.Floor(), where)
        high = apply(ops.Clip(0.0, float(size - 1)), low + 1.0)
        upper = where - low
        lower = -upper + 1.0
        both = (low, lower), (high, upper)
        first, second = [(place.astype("int32"), part * weight) for place, part in both]
        return first, second

    def _first(self, images: Value, x: Value) -> Value:
        """Return where each channel of each region's image begins: [regions, channels, 1, ...]."""
        _, channels, height, width = x.shape
        size, number = height * width, images.shape[0]
        image = apply(ops.Reshape((number, 1, 1, 1, 1, 1)), images.astype("int32"))
        begin = image * (channels * size)
        own = (np.arange(channels, dtype="int32") * size).reshape(1, channels, 1, 1, 1, 1)
        return begin + own

    def _tap(
        self,
        x: Value,
        first: Value,
        down: tuple[Value, Value],
        across: tuple[Value, Value],
        outer: tuple[int, int],
    ) -> Value:
        """Return one of the four pixels of each point, times its weight."""
        number, _ = outer
        tall = (number, 1, self.rows, self.samples, 1, 1)
        wide = (number, 1, 1, 1, self.columns, self.samples)
        row, column = (
            apply(ops.Reshape(shape), each[0]) for shape, each in ((tall, down), (wide, across))
        )
        line = first + row * x.shape[3]
        place = line + column
        pixels = apply(ops.Take(0), apply(ops.Reshape((x.type.size,)), x), place)
        weight = apply(ops.Reshape(tall), down[1]) * apply(ops.Reshape(wide), across[1])
        return pixels.astype(weight.dtype) * weight
