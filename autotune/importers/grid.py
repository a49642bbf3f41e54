"""Images at places of a grid that depends on the data: GridSample of ONNX and PyTorch."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from autotune.errors import GraphError
from autotune.graph import Constant, Value, apply, made_at, ops

MODES, PADDINGS = ("bilinear", "nearest", "bicubic"), ("zeros", "border", "reflection")
# A of the cubic: R. Keys, "Cubic Convolution Interpolation", 1981, has -0.5.
_CUBIC = -0.75


@dataclass(frozen=True)
class GridSampler:
    """Reads images [n, c, ...] at the places of a grid [n, ..., axes], which are from -1 to 1.

    Attributes:
        mode: one of `MODES`.
        padding: one of `PADDINGS`: what is beyond the images.
        align_corners: whether -1 and 1 are the centres of the outermost pixels, not their edges.
        origin: the place in the model.
    """

    mode: str
    padding: str
    align_corners: bool
    origin: str

    def __post_init__(self) -> None:
        if self.mode not in MODES or self.padding not in PADDINGS:
            raise GraphError(
                f"{self.origin}: mode must be one of {', '.join(MODES)} and padding one of "
                f"{', '.join(PADDINGS)}, got {self.mode!r} and {self.padding!r}"
            )

    def read(self, x: Value, grid: Value) -> Value:
        """Return the images at the places."""
        axes = x.type.ndim - 2
        if axes < 1 or grid.shape[0] != x.shape[0] or grid.shape[-1] != axes:
            raise GraphError(f"{self.origin}: grid must be [n, ..., {axes}] for {x.type}")
        if self.mode == "bicubic" and axes != 2:
            raise GraphError(f"{self.origin}: bicubic needs images of 2 dimensions, got {x.type}")
        # The last number of a place is that of the first axis.
        sizes = enumerate(x.shape[2:])
        with made_at(self.origin):
            places = [self._coordinate(grid, axes - 1 - axis, n) for axis, n in sizes]
        return self.at(x, places)

    def at(self, x: Value, places: Sequence[Value]) -> Value:
        """Return the images [n, c, ...] at places [n, ...] in pixels, one for each axis."""
        with made_at(self.origin):
            return self._interpolated(x, places)

    def _interpolated(self, x: Value, places: Sequence[Value]) -> Value:
        taps: list[tuple[list[Value], Value | None]] = [([], None)]
        for where, size in zip(places, x.shape[2:], strict=True):
            own = self._neighbours(where, size)
            taps = [
                ([*at, place], weight if w is None else w if weight is None else w * weight)
                for at, w in taps
                for place, weight in own
            ]
        parts = [self._tap(x, at, weight) for at, weight in taps]
        total = parts[0]
        for each in parts[1:]:
            total = total + each
        return total

    def _coordinate(self, grid: Value, number: int, size: int) -> Value:
        """Return where a place is along an axis, in pixels."""
        begin = (*[0] * (grid.type.ndim - 1), number)
        part = apply(ops.StridedSlice(begin, (*grid.shape[:-1], number + 1)), grid)
        place = apply(ops.Reshape(grid.shape[:-1]), part)
        scale = (size - 1) / 2 if self.align_corners else size / 2
        where = place * scale + (size - 1) / 2
        return where if self.mode == "bicubic" else self._within(where, size)

    def _within(self, where: Value, size: int) -> Value:
        """Return a place that is brought into the images, but for padding by zeros."""
        if self.padding == "zeros":
            return where
        if self.padding == "reflection":
            low = 0.0 if self.align_corners else -0.5
            span = size - 1.0 if self.align_corners else float(size)
            if span == 0:
                where = where * 0.0
            else:
                far = apply(ops.Abs(), where - low)
                rest = apply(ops.Mod(), far, Constant.of(np.asarray(2 * span, far.dtype)))
                back = apply(ops.Abs(), rest - span)  # how far it is from the other end
                where = -back + span + low
        return apply(ops.Clip(0.0, float(size - 1)), where)

    def _neighbours(self, where: Value, size: int) -> list[tuple[Value, Value | None]]:
        """Return pixels along an axis, each with its weight; of those beyond it is 0."""
        if self.mode == "nearest":
            place = apply(ops.Nearbyint(), where)
            return [(self._limited(place, size), self._inside(place, size))]
        low = apply(ops.Floor(), where)
        far = where - low
        offsets: Sequence[int] = (-1, 0, 1, 2) if self.mode == "bicubic" else (0, 1)
        found: list[tuple[Value, Value | None]] = []
        for offset in offsets:
            place, weight = low + offset, self._weight(far, offset)
            if self.mode == "bicubic":
                place = self._within(place, size)
            inside = self._inside(place, size)
            weight = weight if inside is None else weight * inside
            found.append((self._limited(place, size), weight))
        return found

    def _weight(self, far: Value, offset: int) -> Value:
        """Return the weight of the pixel at an offset from the one below a place."""
        if self.mode == "bilinear":
            return far if offset else -far + 1
        d = apply(ops.Abs(), far - offset)
        if offset in (0, 1):
            powers = (1.0, 0.0, -(_CUBIC + 3), _CUBIC + 2)
        else:
            powers = (-4 * _CUBIC, 8 * _CUBIC, -5 * _CUBIC, _CUBIC)
        total = d * powers[3]
        for factor in (powers[2], powers[1]):
            total = (total + factor) * d
        return total + powers[0]

    def _limited(self, place: Value, size: int) -> Value:
        return apply(ops.Clip(0.0, float(size - 1)), place).astype("int32")

    def _inside(self, place: Value, size: int) -> Value | None:
        """Return 1 for pixels of the image and 0 for others; None where there are no others."""
        if self.padding != "zeros":
            return None
        inside: Value = apply(ops.LogicalAnd(), place >= 0, place <= size - 1)
        return inside.astype(place.dtype)

    def _tap(self, x: Value, at: Sequence[Value], weight: Value | None) -> Value:
        """Return the pixels at places, each times its weight, of all channels."""
        n, channels, *sizes = x.shape
        flat: Value | None = None
        for place, size in zip(at, sizes, strict=True):
            if flat is not None:
                place = flat * size + place
            flat = place
        assert flat is not None
        shape = (n, 1, *flat.shape[1:])
        base = np.arange(n * channels, dtype="int32").reshape(n, channels) * int(np.prod(sizes))
        base = base.reshape(n, channels, *[1] * (len(shape) - 2))
        places = apply(ops.Reshape(shape), flat) + base.astype("int32")
        read = apply(ops.Take(0), apply(ops.Reshape((x.type.size,)), x), places)
        if weight is None:
            return read
        weight = apply(ops.Reshape(shape), weight.astype(x.dtype))
        return read * weight
