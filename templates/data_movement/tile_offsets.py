"""Tiles of several axes of an array, and the text of the offsets of their elements.

Elements of a tile are numbered in the order of the data, or in that of the result. Axes that are
side by side in an order are one where memory goes on from one to the next, so that a number is
divided as seldom as possible, and vectors reach across axes.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

from .. import common
from ..bank_conflicts import WARP, wavefronts
from .transpose_shape import strides_of

# Elements that are inserted into a tile in shared memory, against bank conflicts.
PADS = (0, 1, 2, 3, 4, 6, 8, 12, 16)
SHARED_BYTES = 48 * 1024


@dataclass(frozen=True)
class Tiles:
    """The tile of each axis, and what follows.

    Attributes:
        extents: of the axes in the order of the data.
        axes: the order of the result.
        tile: extents of a tile, in the order of the data.
    """

    extents: tuple[int, ...]
    axes: tuple[int, ...]
    tile: tuple[int, ...]

    @property
    def elements(self) -> int:
        """Elements of a tile."""
        return math.prod(self.tile)

    @property
    def counts(self) -> list[int]:
        """Tiles along each axis."""
        return [common.ceil_div(e, t) for e, t in zip(self.extents, self.tile, strict=True)]

    @property
    def blocks(self) -> int:
        """Number of tiles."""
        return math.prod(self.counts)

    @property
    def inward(self) -> tuple[int, ...]:
        """The axes in the order of the data."""
        return tuple(range(len(self.extents)))

    def run(self, order: Sequence[int]) -> int:
        """Return how many elements of a tile are contiguous in an array of this order."""
        length = 1
        for axis in reversed(order):
            length *= self.tile[axis]
            if self.tile[axis] < self.extents[axis]:
                break
        return length

    def vector(self, order: Sequence[int], element_bytes: int) -> int:
        """Return how many elements vectors have along the runs of an array of this order.

        Runs start at multiples of their length, and of the extents that they are parts of.
        """
        inner = run = 1
        for axis in reversed(order):
            run, inner = inner * self.tile[axis], inner * self.extents[axis]
            if run < inner:
                break
        whole = math.gcd(run, inner)
        return max(v for v in (1, 2, 4, 8) if v * element_bytes <= 16 and whole % v == 0)


@dataclass(frozen=True)
class Offsets:
    """Offsets of the elements of a tile, numbered in an order, in memory with given strides.

    Attributes:
        axes: (extent, stride), the innermost first; those that memory makes one are merged.
    """

    axes: tuple[tuple[int, int], ...]

    @classmethod
    def of(cls, tile: Sequence[int], order: Sequence[int], strides: Sequence[int]) -> Offsets:
        """Return the offsets of a tile's elements in an order."""
        merged: list[tuple[int, int]] = []
        for axis in reversed(order):
            extent, stride = tile[axis], strides[axis]
            if extent == 1:
                continue
            if merged and merged[-1][0] * merged[-1][1] == stride:
                merged[-1] = (merged[-1][0] * extent, merged[-1][1])
            else:
                merged.append((extent, stride))
        return cls(tuple(merged) or ((1, 1),))

    def at(self, number: int) -> int:
        """Return the offset of the element of a number."""
        offset = 0
        for extent, stride in self.axes:
            offset, number = offset + number % extent * stride, number // extent
        return offset

    def steps(self, vector: int) -> int | None:
        """Return the stride between the elements of a vector; None if it reaches across axes."""
        extent, stride = self.axes[0]
        return stride if extent % vector == 0 else None

    def is_vector(self, vector: int) -> bool:
        """Return whether vectors are contiguous and aligned."""
        whole = all(stride % vector == 0 for _, stride in self.axes[1:])
        return self.steps(vector) == 1 and whole

    def text(self, kind: str, vector: int, number: str = "") -> str:
        """Return the offset of the first element of vector ``i``, as an expression.

        Args:
            number: that of an element, instead of the first one's.
        """
        return " + ".join(
            f"{kind}({self._coordinate(place, vector, number)})"
            + (f" * {stride}" if stride > 1 else "")
            for place, (_, stride) in enumerate(self.axes)
        )

    def _coordinate(self, place: int, vector: int, number: str = "") -> str:
        """Return the coordinate of an element along a merged axis; without a number the first."""
        inner = math.prod(extent for extent, _ in self.axes[:place])
        last, extent = place == len(self.axes) - 1, self.axes[place][0]
        if number:
            of = f"{number} / {inner}" if inner > 1 else number
        elif place == 0 and extent % vector == 0:
            of = "i" if last else f"i % {extent // vector}"
            return of if vector == 1 else f"{of} * {vector}"
        elif inner % vector == 0:
            of = f"i / {inner // vector}" if inner > vector else "i"
        else:
            of = f"i * {vector} / {inner}" if inner > 1 else f"i * {vector}"
        return of if last else f"{of} % {extent}"

    def walk(self, vector: int) -> tuple[str, str]:
        """Return statements before the elements of a vector, and the offset of element ``j``.

        Vectors that are no longer than the innermost axis reach its end once at most: ``wrap`` is
        what is added to offsets from there on.
        """
        (extent, stride), *outer = self.axes
        if extent % vector == 0:
            return f"const int at = {self.text('int', vector)};", f"at + j * {stride}"
        if extent < vector:
            return "", self.text("int", 1, f"(i * {vector} + j)")
        wrap = f"{outer[0][1] - extent * stride}"
        for place in range(1, len(self.axes) - 1):
            (whole, step), (_, following) = self.axes[place : place + 2]
            ends = f"{self._coordinate(place, vector)} == {whole - 1}"
            wrap += f" + ({ends} ? {following - whole * step}"
        wrap += " : 0)" * (len(self.axes) - 2)
        begin = (
            f"const int at = {self.text('int', vector)}, "
            f"inner = {self._coordinate(0, vector)}, wrap = {wrap};"
        )
        return begin, f"at + j * {stride} + (inner + j >= {extent} ? wrap : 0)"


class TileText:
    """The parameters of ``transpose_tiles.cu`` that follow from a tile."""

    def __init__(self, tiles: Tiles, element_bytes: int) -> None:
        self.tiles, self.size, self.rank = tiles, element_bytes, len(tiles.extents)
        result = strides_of([tiles.extents[a] for a in tiles.axes])
        self.data = strides_of(tiles.extents)
        self.result = [result[tiles.axes.index(a)] for a in range(self.rank)]
        self.v_in = tiles.vector(tiles.inward, self.size)
        self.v_out = tiles.vector(tiles.axes, self.size)

    def defines(self) -> dict[str, int | str]:
        """Return the preprocessor definitions."""
        tiles, (shared, places) = self.tiles, self._layout
        loaded, stored = (
            Offsets.of(tiles.tile, order, shared) for order in (tiles.inward, tiles.axes)
        )
        read = Offsets.of(tiles.tile, tiles.inward, self.data)
        written = Offsets.of(tiles.tile, tiles.axes, self.result)
        (in_begin, in_shared), (out_begin, out_shared) = (
            loaded.walk(self.v_in), stored.walk(self.v_out),
        )  # fmt: skip
        return {
            "SHARED": places, "V_IN": self.v_in, "V_OUT": self.v_out,
            "IN_VECTOR": int(loaded.is_vector(self.v_in)),
            "BLOCK_IN": self._first(self.data), "BLOCK_OUT": self._first(self.result),
            "IN_AT": read.text("Index", self.v_in), "OUT_AT": written.text("Index", self.v_out),
            "IN_BEGIN": in_begin, "IN_SHARED": in_shared,
            "OUT_BEGIN": out_begin, "OUT_SHARED": out_shared,
            "IN_INSIDE": self._inside(tiles.inward, self.v_in),
            "OUT_INSIDE": self._inside(tiles.axes, self.v_out),
        }  # fmt: skip

    @cached_property
    def _layout(self) -> tuple[list[int], int]:
        """A tile's strides in shared memory with fewest bank conflicts, and its size."""
        best: tuple[int, list[int], int] | None = None
        for pad in PADS:
            for padded in range(self.rank - 1):
                strides, size = [0] * self.rank, 1
                for axis in reversed(range(self.rank)):
                    strides[axis] = size
                    size = size * self.tiles.tile[axis] + (pad if axis - 1 == padded else 0)
                taken = self._wavefronts(strides)
                if size * self.size <= SHARED_BYTES and (best is None or taken < best[0]):
                    best = (taken, strides, size)
                if pad == 0:
                    break
        assert best is not None
        return best[1], best[2]

    def _wavefronts(self, strides: Sequence[int]) -> int:
        """Return the wavefronts of the first warps, in both orders."""
        total, tile = 0, self.tiles.tile
        for order, vector in ((self.tiles.inward, self.v_in), (self.tiles.axes, self.v_out)):
            offsets = Offsets.of(tile, order, strides)
            together = order == self.tiles.inward and offsets.is_vector(vector)
            each = range(1) if together or offsets.steps(vector) is not None else range(vector)
            times = 1 if together or len(each) > 1 else vector
            width = self.size * (vector if together else 1)
            for warp in range(3):
                lanes = range(warp * WARP, (warp + 1) * WARP)
                for j in each:
                    addresses = [offsets.at(lane * vector + j) * self.size for lane in lanes]
                    total += times * wavefronts(addresses, width)
        return total

    def _inside(self, order: Sequence[int], vector: int) -> str:
        """Return whether a vector is in the array, along the axes that tiles do not divide."""
        tests, inner = [], 1
        for axis in reversed(order):
            extent, tile = self.tiles.extents[axis], self.tiles.tile[axis]
            if extent % tile:
                number = "i" if vector == 1 else f"(i * {vector})"
                at = f"{number} / {inner} % {tile}"
                tests.append(f"{self._start(axis)} + {at} < {extent}")
            inner *= tile
        return " && ".join(tests) or "true"

    def _start(self, axis: int) -> str:
        """Return where the tile of a block begins along an axis."""
        counts, inner = self.tiles.counts, 1
        for other in reversed(self.tiles.axes):
            if other == axis:
                break
            inner *= counts[other]
        return f"block / {inner} % {counts[axis]} * {self.tiles.tile[axis]}"

    def _first(self, strides: Sequence[int]) -> str:
        """Return the offset of the tile of a block."""
        counts = self.tiles.counts
        moving = [a for a in range(self.rank) if counts[a] > 1]
        return " + ".join(f"Index({self._start(a)}) * {strides[a]}" for a in moving) or "0"
