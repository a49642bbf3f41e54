"""Resources of GPU kernels in closed form: from the row of a candidate, without lowering it.

All columns are computed for a whole population at once. Shared memory and threads of a block are
exact; registers, bank conflicts and times are estimates. That closed forms suffice to rank tiles
is the idea of Roller (Zhu et al., OSDI 2022) and Pruner (Qiao et al., ASPLOS 2025).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property, reduce

import numpy as np

from autotune.auto_scheduler.search.analytical.tiles import (
    Column,
    Number,
    Tiled,
    TiledAxis,
    TileInput,
    is_used,
)
from autotune.auto_scheduler.search.space.annotate_gpu import ROW_UNIT
from autotune.auto_scheduler.search.space.program import Rows

_WARP = 32.0
_SECTOR = 32.0
# Bytes of the widest access.
_VECTOR = 16
# Words of it.
_WORDS = 4


@dataclass(frozen=True)
class Traffic:
    """Costs of reading one input, each a column.

    Attributes:
        elements: in shared memory, of one chunk.
        copies: elements that one thread copies, divided by how many it copies at once.
        regular: whether the copies of a thread are a constant distance apart.
        sectors: units of 32 bytes that one chunk reads from memory.
        loads: elements that one thread needs for one step of the reduction.
        again: how often it reads each of them.
        width: neighbours among them that one instruction reads.
        distinct: threads of a warp that read different elements.
        conflict: threads of a warp that access the same bank.
    """

    elements: Column
    copies: Column
    regular: Column
    sectors: Column
    loads: Column
    again: Column
    width: Column
    distinct: Column
    conflict: Column

    @property
    def reads(self) -> Column:
        """Instructions by which a thread reads what it needs for one step."""
        return self.again * self.loads / self.width

    @property
    def wavefronts(self) -> Column:
        """Times that shared memory answers them, 32 words each; for one warp."""
        words = np.maximum(self.distinct * self.width / _WARP, 1.0)
        return self.reads * words * self.conflict


class Levels:
    """The lengths of the loops of a tiled stage, level by level, for a population.

    Args:
        tiled: the stage.
        rows: the population.
        data: levels that the data axes have besides the outermost.
        reductions: those of the reduction axes.
    """

    def __init__(self, tiled: Tiled, rows: Rows, data: int = 4, reductions: int = 2) -> None:
        self.data = [axis.lengths(rows, data) for axis in tiled.data]
        self.reductions = [axis.lengths(rows, reductions) for axis in tiled.reductions]
        self.count = len(rows)
        self._spans: dict[tuple[int, int | None, int | None], Column] = {}
        self._products: dict[tuple[bool, int | None, int | None], Column] = {}

    def one(self) -> Column:
        """Return a column of ones."""
        return np.ones(self.count)

    def product(self, lengths: list[Column], levels: slice) -> Column:
        """Multiply some levels over all axes, those of data or of reductions."""
        key = lengths is self.data, levels.start, levels.stop
        if key not in self._products:
            each_axis = [multiplied(each[levels]) for each in lengths]
            self._products[key] = reduce(np.multiply, each_axis) if each_axis else self.one()
        return self._products[key]

    def span(self, index: int, data_levels: slice, reduction_levels: slice) -> Column:
        """Return how far an axis (data axes first) runs within some levels."""
        of_data = index < len(self.data)
        which = data_levels if of_data else reduction_levels
        key = index, which.start, which.stop
        if key not in self._spans:
            axis = self.data[index] if of_data else self.reductions[index - len(self.data)]
            self._spans[key] = multiplied(axis[which])
        return self._spans[key]


def multiplied(lengths: Column) -> Column:
    """Return the products of some levels of lengths, shape (levels, rows), one a row."""
    product = lengths[0] if len(lengths) == 1 else np.multiply.reduce(lengths, axis=0)
    return np.asarray(product)


class Shape:
    """Extents of one tiled stage, each a column; computed when they are asked for.

    Args:
        tiled: the stage.
        levels: the lengths of its loops.
    """

    def __init__(self, tiled: Tiled, levels: Levels) -> None:
        self._tiled, self._levels = tiled, levels

    @cached_property
    def blocks(self) -> Column:
        """Blocks of the grid."""
        return self._whole(self._tiled.data, self._levels.data)

    @cached_property
    def vthreads(self) -> Column:
        """Virtual threads of a block."""
        return self._levels.product(self._levels.data, slice(0, 1))

    @cached_property
    def threads(self) -> Column:
        """Threads of a block."""
        return self._levels.product(self._levels.data, slice(1, 2))

    @cached_property
    def accumulators(self) -> Column:
        """Partial results that one thread keeps."""
        return self.vthreads * self._levels.product(self._levels.data, slice(2, None))

    @cached_property
    def chunks(self) -> Column:
        """Times that a block fills its shared memory."""
        return self._whole(self._tiled.reductions, self._levels.reductions)

    @cached_property
    def depth(self) -> Column:
        """Iterations of the reduction for one such filling."""
        return self._levels.product(self._levels.reductions, slice(None))

    @cached_property
    def inner(self) -> Column:
        """Iterations of the loops inside the outermost inner reduction loop."""
        sums = self._levels.product(self._levels.reductions, slice(1, None))
        return sums * self._levels.product(self._levels.data, slice(2, None))

    @cached_property
    def run(self) -> Column:
        """Neighbouring outputs that neighbouring threads write."""
        return _run(self._tiled.data, self._levels)

    def _whole(self, axes: Sequence[TiledAxis], lengths: Sequence[Column]) -> Column:
        """Return the iterations of the outermost loops of some axes."""
        result = self._levels.one()
        for axis, inner in zip(axes, lengths, strict=True):
            result = result * np.ceil(axis.extent / multiplied(inner))
        return result


def unrolled_steps(levels: Levels, loops: list[tuple[Column, slice]], start: Column,
                   limit: Column) -> Column:  # fmt: skip
    """Return how many statements unrolling writes out, loop by loop from the inside.

    Args:
        levels: the lengths of the loops.
        loops: groups of loops, innermost first: lengths of an axis, and which of its levels.
        start: statements in the innermost loop.
        limit: what `auto_unroll_max_step` allows: of each row, or of each of several such columns.
    """
    extents = [multiplied(lengths[which]) for lengths, which in loops]
    sizes = start * np.multiply.accumulate(np.array([levels.one(), *extents]), axis=0)
    # Loops are written out as long as all of them keep the limit, and sizes only grow.
    return np.asarray(np.where(sizes <= limit[..., None, :], sizes, start).max(axis=-2))


def _run(axes: tuple[TiledAxis, ...], levels: Levels) -> Column:
    """Return how many neighbouring outputs a row of threads writes at once, contiguously.

    A thread writes its own neighbours by vectors.
    """
    run = levels.one()
    open_ = np.ones(levels.count, bool)
    first = True
    for axis, lengths in zip(reversed(axes), reversed(levels.data), strict=True):
        own = multiplied(lengths[2:])
        width = np.gcd(own.astype(np.int64), _WORDS).astype(np.float64) if first else levels.one()
        run = np.where(open_, run * np.where(own == width, width * lengths[1], width), run)
        open_ &= lengths[1] * own == axis.extent
        first = False
    return run


def footprint(source: TileInput, levels: Levels, data: slice, reductions: slice) -> list[Column]:
    """Return the extents of what is read of an input within some levels of the tiles."""
    extents = []
    for dimension, extent in enumerate(source.shape):
        reached = [
            _reach(read[dimension], extent, levels, data, reductions) for read in source.indices
        ]
        widest = reached[0] if len(reached) == 1 else np.maximum.reduce(reached)
        extents.append(np.minimum(widest, extent))
    return extents


def _reach(
    factors: tuple[Number, ...] | None, extent: int, levels: Levels, data: slice, reductions: slice
) -> Column:
    """Return how many indices of one dimension one read reaches, from the first to the last."""
    if factors is None:
        return np.full(levels.count, float(extent))
    steps = [
        np.abs(factor) * (levels.span(index, data, reductions) - 1)
        for index, factor in enumerate(factors)
        if is_used(factor)
    ]
    return reduce(np.add, steps) + 1.0 if steps else levels.one()


def traffic_of(
    source: TileInput,
    rows: Rows,
    levels: Levels,
    shape: Shape,
    written: Column,
    extents: list[Column],
) -> Traffic:
    """Return the memory traffic of one input.

    Args:
        source: the input.
        rows: the population.
        levels: its lengths.
        shape: its extents.
        written: whether the inner loops are written out, 0 or 1.
        extents: of what a block reads of it for one chunk: its `footprint`.
    """
    elements = product_of(extents, levels)
    width = levels.one() if source.vector is None else rows[:, source.vector].astype(np.float64)
    run = contiguous(source, levels, extents)
    sectors = elements / run * np.ceil(run * source.item / _SECTOR)
    again = np.where(written > 0, 1.0, _repeats(source, levels))
    wide = _width(source, levels, extents)
    distinct, conflict = _banks(source, levels, strides_of(source, rows, extents), wide)
    return Traffic(
        elements=elements,
        copies=np.ceil(elements / (shape.threads * width)),
        regular=_regular(extents, shape.threads * width),
        sectors=sectors,
        loads=loads_of(source, levels),
        again=again,
        width=wide,
        distinct=distinct,
        conflict=conflict,
    )


def loads_of(source: TileInput, levels: Levels) -> Column:
    """Return how many elements of an input one thread needs for one step of the reduction."""
    own = footprint(source, levels, slice(2, None), slice(0, 0))
    virtual = footprint(source, levels, slice(0, 1), slice(0, 0))
    return product_of(own, levels) * product_of(virtual, levels)


def _regular(extents: list[Column], step: Column) -> Column:
    """Return whether elements of a tile that are ``step`` apart are so in memory, 0 or 1.

    Otherwise each copy of a thread needs divisions of its own to find its place.
    """
    regular = np.ones(len(step), bool)
    inside = np.ones(len(step))
    for extent in reversed(extents[1:]):
        inside = inside * extent
        regular &= (step % inside == 0) | (inside % step == 0)
    return regular.astype(np.float64)


def contiguous(source: TileInput, levels: Levels, extents: list[Column]) -> Column:
    """Return how many elements of what is read are contiguous in the source."""
    run, open_ = levels.one(), np.ones(levels.count, bool)
    for extent, whole in zip(reversed(extents), reversed(source.shape), strict=True):
        run = np.where(open_, run * extent, run)
        open_ &= extent == whole
    return run


def _repeats(source: TileInput, levels: Levels) -> Column:
    """Return how often a thread reads what it needs for one step of the reduction.

    Between the two inner levels of data loops stand the inner steps of the reduction. Where these
    are not written out, each iteration of the outer loops goes through them alone, and reads
    again what does not depend on it.
    """
    again = levels.one()
    for index, lengths in enumerate(levels.data):
        used = any(f is not None and is_used(f[index]) for read in source.indices for f in read)
        again = again if used else again * lengths[2]
    return again


def _width(source: TileInput, levels: Levels, extents: list[Column]) -> Column:
    """Return how many neighbours of a tile one instruction reads: what a thread uses together.

    They are counted by one axis, a data axis or, where the steps are written out, a reduction; and
    the rows of the tile have to begin where such vectors do.
    """
    most = max(_VECTOR // source.item, 1)
    factors = source.indices[0][-1] if source.indices and source.indices[0] else None
    if factors is None or sum(map(is_used, factors)) != 1:
        return levels.one()
    axis = next(i for i, factor in enumerate(factors) if is_used(factor))
    if factors[axis] not in (1, -1):
        return levels.one()
    data = axis < len(levels.data)
    run = levels.span(axis, slice(2, None), slice(1, None) if not data else slice(0, 0))
    inner = extents[-1].astype(np.int64)
    return np.gcd(np.gcd(run.astype(np.int64), inner), most).astype(np.float64)


def strides_of(source: TileInput, rows: Rows, extents: list[Column]) -> list[Column]:
    """Return how far apart neighbours along each dimension of a tile in shared memory are.

    After them comes the number of its elements, padding included.
    """
    strides = [np.ones(len(rows))]
    for dimension in range(len(extents) - 1, -1, -1):
        if source.row is not None and dimension == source.row_dimension:
            offset = rows[:, source.row]
            gap = np.where(offset > 0, (offset - strides[-1]) % ROW_UNIT, 0.0)
            strides[-1] = strides[-1] + gap
        strides.append(strides[-1] * extents[dimension])
    size = strides.pop()
    return [*strides[::-1], size]


def _banks(
    source: TileInput, levels: Levels, pitch: list[Column], width: Column
) -> tuple[Column, Column]:
    """Return how many threads of a warp read different elements, and how many one bank.

    The second looks at the innermost data axis by whose threads the element depends.
    """
    lanes, distinct, conflict = np.full(levels.count, _WARP), levels.one(), levels.one()
    for index in range(len(levels.data) - 1, -1, -1):
        lengths = levels.data[index]
        step = np.zeros(levels.count)
        for dimension, factors in enumerate(source.indices[0]):
            if factors is not None and is_used(factors[index]):
                step = step + np.abs(factors[index]) * multiplied(lengths[2:]) * pitch[dimension]
        here = np.minimum(lengths[1], lanes)
        vectors = np.maximum(step / width, 1).astype(np.int64)
        meeting = np.gcd(vectors, (_WARP / width).astype(np.int64)).astype(np.float64)
        first = (distinct == 1) & (step > 0) & (here > 1)
        conflict = np.where(first, np.minimum(meeting, here), conflict)
        distinct = np.where(step > 0, distinct * here, distinct)
        lanes = np.maximum(lanes / here, 1.0)
    return distinct, conflict


def product_of(columns: list[Column], levels: Levels) -> Column:
    """Return the product of some columns; ones where there is none."""
    result = levels.one()
    for each in columns:
        result = result * each
    return result


def lengths_of(axes: list[Column], most: int, levels: int, none: Column) -> list[Column]:
    """Return the lengths of some axes, level by level; missing axes have zeros."""
    columns = [each[i] if i < len(each) else none for each in axes[:most] for i in range(levels)]
    return columns + [none] * (most * levels - len(columns))
