"""Register tiles and tasks of the CPU templates of products and convolutions."""

from __future__ import annotations

import platform
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cache
from heapq import heapreplace
from itertools import product
from pathlib import Path

from autotune import Target
from autotune.runtime import cpu_instructions

from . import common

# Rows and columns of a tile, if tasks are divided evenly.
Units = tuple[int, int] | None
# Rows of sums that a tile may have; 8 and more are for machines of 32 registers.
ROWS = tuple(range(1, 15))
VECTORS, LANES = (1, 2, 3, 4), (4, 8, 16)
# Rows beyond which tiles whose vectors come from L2 take longer than their cycles.
HIGHEST = 9
# Ways of an L1 cache that is not known.
_LEAST_WAYS = 8
# Vector multiply-adds, and loads, that a core issues per cycle; latency of a multiply-add.
_EACH_CYCLE, _LATENCY = 2, 4
# Cost of a tile of remaining rows relative to a whole one, which breaks ties in favour of tiles of
# one size; cycles of a step of a sum in a column that is computed by itself.
_OF_REST, _OF_TAIL = 1.01, 0.25
# Multiply-adds in the time in which a cache line of results in which two tasks meet, in one row,
# moves between cores (false sharing), each time that a part of a sum is added.
BORDER = 1500
# Cycles of a vector from L2; as a factor, the cost of tiles of more than 12 pixels, which took
# longer than their cycles on a Xeon and on an EPYC.
_OF_VECTOR, _HIGH = 0.35, 1.06
# Cost of a step of vectors shorter than the registers, of which more are loaded per cycle.
_OF_SHORT = 0.85
# Cycles of the transpose of a block of 16 short vectors of sums, and as a factor its cost where
# both need more registers than there are. The same of long vectors, with the registers that it
# takes besides, and the cycles of storing a part of each row of such a block.
_OF_TURN, _CROWDED_SHORT = 100, 1.28
_OF_TURN_LONG, _CROWDED, _TURNING, _OF_STORE = 75, 1.5, 3, 12


@dataclass(frozen=True)
class VectorUnit:
    """The vector registers that code for a CPU may name.

    Attributes:
        floats: of each: 16, 8 or 4.
        registers: how many.
        halves: whether sums of a whole vector are made of two halves, and take twice as long.
    """

    floats: int
    registers: int
    halves: bool = False

    def spills(self, rows: int, vectors: int, lanes: int) -> bool:
        """Return whether sums, a panel row and a broadcast need more registers than there are."""
        parts = 1 + (lanes >= 2 * self.floats) + 2 * (lanes >= 4 * self.floats)
        return (rows + 1) * vectors * parts + 1 > self.registers


def vector_unit(target: Target) -> VectorUnit:
    """Return the vector registers of the CPU that a target names by ``-mcpu``, or of this one."""
    if platform.machine() not in ("x86_64", "AMD64"):
        return VectorUnit(4, 32)
    named = target.attrs.get("mcpu", "native")
    is_here = named == "native"
    wide = _has_avx512() if is_here else "AVX512F" in cpu_instructions(target)
    halves = _is_zen4() if is_here else named == "znver4"
    return VectorUnit(16, 32, halves) if wide else VectorUnit(8, 16)


@cache
def _cpuinfo() -> str:
    cpuinfo = Path("/proc/cpuinfo")
    return cpuinfo.read_text("utf-8", "replace") if cpuinfo.exists() else ""


@cache
def _ways() -> int:
    index = Path("/sys/devices/system/cpu/cpu0/cache/index0/ways_of_associativity")
    return int(index.read_text("utf-8")) if index.exists() else _LEAST_WAYS


def rows_together(target: Target) -> int:
    """Return how many lines of one set L1 holds in addition to two of a panel."""
    is_here = target.attrs.get("mcpu", "native") == "native"
    return (_ways() if is_here else _LEAST_WAYS) - 2


def _has_avx512() -> bool:
    return "avx512f" in _cpuinfo()


def _is_zen4() -> bool:
    """Return whether this is an AMD of family 25; those with AVX-512 are Zen 4."""
    lines = (line.partition(":") for line in _cpuinfo().splitlines())
    first = {name.strip(): value.strip() for name, _, value in reversed(list(lines))}
    return (first.get("vendor_id"), first.get("cpu family")) == ("AuthenticAMD", "25")


def tile(
    unit: VectorUnit, rows: int, columns: int, *, tails: bool = False, narrow: bool = False,
    is_far: bool = False, rows_of_tile: Iterable[int] = ROWS, lanes_of_tile: Iterable[int] = LANES,
) -> tuple[int, int, int]:  # fmt: skip
    """Return rows, vectors and lanes of the tile that covers a matrix in the fewest cycles.

    A step of a tile takes as long as its multiply-adds or its loads, whichever are more, and at
    least the latency of a multiply-add. Rows that remain after whole tiles have a tile of their
    own.

    Args:
        unit: the vector registers.
        rows: of the matrix.
        columns: of the matrix.
        tails: whether a few columns that remain after whole tiles are computed one by one (see
            `tail_of`).
        narrow: whether the last tiles have only the vectors that the remaining columns need.
        is_far: whether the vectors of a step come from L2.
        rows_of_tile: that a tile may have.
        lanes_of_tile: that its vectors may have; if all are longer than registers they have
            several.
    """

    def cycles(choice: tuple[int, int, int]) -> float:
        high, vectors, lanes = choice
        left = tail_of(columns, vectors * lanes, lanes) if tails else 0
        whole, rest = divmod(columns - left, vectors * lanes)
        last = common.ceil_div(rest, lanes) if narrow else vectors
        parts = max(lanes // unit.floats, 2 if unit.halves and lanes > 8 else 1)

        def step(part: int, wide: int) -> float:
            return _step(part, wide, parts) + is_far * _OF_VECTOR * wide * parts

        def across(part: int) -> float:
            wide = whole * step(part, vectors) + _OF_TAIL * left * part
            return wide + (rest > 0) * step(part, last)

        down, below = divmod(rows, high)
        return down * across(high) + (_OF_REST * across(below) if below else 0)

    asked = [*lanes_of_tile]
    lanes = [n for n in asked if n <= unit.floats] or asked
    choices = product([r for r in rows_of_tile if r <= rows], VECTORS, lanes)
    return min((each for each in choices if not unit.spills(*each)), key=cycles)


def line_tile(
    unit: VectorUnit, pixels: int, filters: int, depth: int, rows: Iterable[int]
) -> tuple[int, int, int]:
    """Return rows, vectors and lanes of the tile that covers lines of pixels in the fewest cycles.

    Pixels that remain after whole tiles of a line have one of their own, and the last filters no
    more vectors than they fill. A step reads its filters from L2, and after ``depth`` steps the
    sums are transposed.
    """

    def cycles(choice: tuple[int, int, int]) -> float:
        high, vectors, lanes = choice

        def each(part: int, wide: int) -> float:
            step = _step(part, wide) * (_HIGH if part > 12 else 1)
            step *= _OF_SHORT if lanes < unit.floats else 1
            return step + (_OF_VECTOR + _turning(unit, part, wide, lanes) / depth) * wide

        def line(wide: int) -> float:
            """Of a block of so many vectors of filters."""
            whole, left = divmod(pixels, high)
            return whole * each(high, wide) + (left > 0) * each(left, wide)

        blocks, rest = divmod(filters, vectors * lanes)
        return blocks * line(vectors) + (rest > 0) * line(common.ceil_div(rest, lanes))

    def holds(vectors: int, lanes: int) -> bool:
        """Whether these are no more than the filters, and blocks hold a whole number of them."""
        width = vectors * lanes
        return width < filters + lanes and (vectors & (vectors - 1) == 0 or width >= filters)

    lanes = [n for n in LANES if n <= unit.floats]
    choices = product([r for r in rows if r <= pixels], VECTORS, lanes)
    fits = (each for each in choices if not unit.spills(*each) and holds(*each[1:]))
    return min(fits, key=cycles)


def _turning(unit: VectorUnit, pixels: int, vectors: int, lanes: int) -> float:
    """Return the cycles in which a vector of sums of each pixel is transposed and stored."""
    blocks = common.ceil_div(pixels, lanes)
    if lanes <= 8:
        crowded = _CROWDED_SHORT if pixels * vectors + lanes > unit.registers else 1
        return _OF_TURN * blocks * lanes / 16 * crowded
    # Sums of the other vectors wait in registers; pixels are stored in parts of powers of two.
    crowded = _CROWDED if pixels * (vectors - 1) + lanes + _TURNING > unit.registers else 1
    parts = pixels // lanes + (pixels % lanes).bit_count()
    return (_OF_TURN_LONG * blocks + _OF_STORE * parts) * lanes / 16 * crowded


def _step(high: int, vectors: int, parts: int = 1) -> float:
    """Return the cycles of one step of a tile, of vectors that are computed in ``parts``."""
    loads = (high + vectors) / _EACH_CYCLE
    return max(high * vectors * parts / _EACH_CYCLE, loads, _LATENCY) + 0.2 * loads + 0.25


def tail_of(columns: int, width: int, lanes: int) -> int:
    """Return how many columns that remain after whole panels are better computed one by one."""
    left = columns % width
    return left if columns > width and 2 * left <= lanes else 0


def tasks(
    target: Target, blocks: Sequence[int], panels: Iterable[int], extents: tuple[int, int],
    width: int, copying: Callable[[int, int], float], images: int = 1, units: Units = None,
) -> tuple[int, int]:  # fmt: skip
    """Return the block of rows and the panels of a task that keep all cores of a target busy.

    Args:
        target: the CPU.
        blocks: rows that a task may have.
        panels: how many panels of columns it may have.
        extents: rows and columns of the whole.
        width: columns of a panel.
        copying: the time of copies of a task of so many rows and columns, relative to that of its
            multiply-adds.
        images: how many wholes there are.
        units: see `task_time`.
    """

    def time(choice: tuple[int, int]) -> float:
        block, some = choice
        task = min(block, extents[0]), min(some * width, extents[1])
        return task_time(target, task, extents, copying, images, units)

    return min(product(blocks, panels), key=lambda choice: (time(choice), -choice[0], choice[1]))


def task_time(
    target: Target, task: tuple[int, int], extents: tuple[int, int],
    copying: Callable[[int, int], float], images: int = 1, units: Units = None,
) -> float:  # fmt: skip
    """Return the number of elements that the core which finishes last computes in the same time.

    Args:
        target: the CPU.
        task: rows and columns of a task.
        extents: rows and columns of a matrix.
        copying: see `tasks`; a remainder of few rows or columns copies more for each element.
        images: how many matrices there are.
        units: rows and columns of a tile, of which tasks have as many as each other, or one more;
            without them all tasks but the last are of one size.
    """
    parts = [_parts(*both) for both in zip(extents, task, units or (None, None), strict=True)]
    each = [
        (tall * broad * (1 + copying(tall, broad)), images * down * across)
        for tall, down in parts[0]
        for broad, across in parts[1]
    ]
    return makespan(max(target.limits.sm_count, 1), each)


def _parts(extent: int, each: int, unit: int | None) -> list[tuple[int, int]]:
    """Return the sizes of the parts of an extent, and how many there are of each."""
    if unit is None:
        whole, left = divmod(extent, each)
        return [(each, whole), *([(left, 1)] if left else [])]
    units = common.ceil_div(extent, unit)
    count = common.ceil_div(units, common.ceil_div(each, unit))
    few, larger = divmod(units, count)
    # The last part, one of the largest, has what is left of its last unit.
    last = (few + (larger > 0)) * unit - (units * unit - extent)
    others = [(few + 1, larger - 1), (few, count - larger)] if larger else [(few, count - 1)]
    return [(last, 1), *((some * unit, times) for some, times in others if times)]


def least_units(extent: int, each: int, unit: int) -> int:
    """Return how many units the smallest part of an extent has, of ``each`` elements at most."""
    units = common.ceil_div(extent, unit)
    return units // common.ceil_div(units, common.ceil_div(each, unit))


def makespan(cores: int, sizes: Iterable[tuple[float, int]]) -> float:
    """Return when all tasks are done, if each free core takes the largest remaining one.

    List scheduling (R. L. Graham, "Bounds on Multiprocessing Timing Anomalies", 1969).

    Args:
        cores: how many.
        sizes: how long tasks take, and how many there are of each.
    """
    (largest, count), *others = sorted(sizes, reverse=True)
    turns, left = divmod(count, cores)
    ends: list[float] = [turns * largest] * (cores - left) + [(turns + 1) * largest] * left
    for size, some in others:
        for _ in range(some):
            heapreplace(ends, ends[0] + size)
    return max(ends)
