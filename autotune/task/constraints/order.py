"""Iterates over valid points in index order, across the long gaps that filters leave."""

from __future__ import annotations

from collections.abc import Collection, Iterator

import numpy as np

from autotune.errors import SpaceError
from autotune.task.constraints.radix import IndexArray
from autotune.task.constraints.valid_points import ValidPoints
from autotune.utils.check import Check

# Indices looked at together while searching; grows from the first to the second.
FIRST_WIDTH, LAST_WIDTH = 64, 1 << 16
# Blocks skipped together.
BLOCKS = 1 << 12
# Draws from a part of the indices before all of that part is looked at.
RANGE_TRIES = 1 << 10


def bounds(total: int, start: int | None, end: int | None) -> tuple[int, int]:
    """Return the range of indices that ``start`` and ``end`` mean; by default all ``total``.

    Raises:
        SpaceError: they are no range of them.
    """
    check = Check(SpaceError, "space")
    last = total if end is None else check.whole("end", end, least=0, most=total)
    first = 0 if start is None else check.whole("start", start, least=0, most=last)
    return first, last


def nth_valid(points: ValidPoints, index: int, n: int, first: int, last: int) -> int | None:
    """Return the ``n``-th valid index after ``index`` (before it if negative), or None.

    Only indices of ``[first, last)`` count.
    """
    step = 1 if n > 0 else -1
    left, width, position = abs(n), FIRST_WIDTH, index + step
    while first <= position < last:
        stop = min(position + width, last) if n > 0 else max(position - width, first - 1)
        span = points.radix.array(_range(position, stop, step))
        valid = span[points.accepts(points.radix.digits(span))]
        if len(valid) >= left:
            return int(valid[left - 1])
        left -= len(valid)
        position, width = stop, min(width * 2, LAST_WIDTH)
        if not len(valid) and first <= position < last:
            position = _skip(points, position, step, first, last)
    return None


def valid_between(points: ValidPoints, first: int, last: int) -> Iterator[IndexArray]:
    """Yield the valid indices of ``[first, last)``, ascending, in pieces."""
    for begin in range(first, last, LAST_WIDTH):
        span = points.radix.array(_range(begin, min(begin + LAST_WIDTH, last), 1))
        yield span[points.accepts(points.radix.digits(span))]


def sample_between(
    points: ValidPoints, first: int, last: int, rng: np.random.Generator, excluded: Collection[int]
) -> list[int]:
    """Return a list of one valid index of ``[first, last)`` not in ``excluded``, or of none."""
    for _ in range(RANGE_TRIES if last > first else 0):
        index = first + int(rng.random() * (last - first))
        if index not in excluded and points.accepts_index(index):
            return [index]
    pieces = valid_between(points, first, last)
    valid = [index for piece in pieces for index in piece.tolist() if index not in excluded]
    return [valid[rng.integers(len(valid))]] if valid else []


def _skip(points: ValidPoints, position: int, step: int, first: int, last: int) -> int:
    """Return the next index that may be valid.

    A constraint that rejects an index rejects all that differ only in faster knobs than it reads.
    """
    here = points.radix.digits([position])
    rejecting = [c for c in points.constraints if not c.accepts(here)[0]]
    if not rejecting:
        return position
    strides = [points.radix.strides[min(c.knobs)] for c in rejecting]
    stride = max(strides)
    constraint = rejecting[strides.index(stride)]
    block = position // stride
    while first <= block * stride + stride - 1 and block * stride < last:
        blocks = points.radix.array(_range(block, max(block + BLOCKS * step, -1), step)) * stride
        blocks = blocks[(blocks >= 0) & (blocks < points.radix.total)]
        accepted = np.flatnonzero(constraint.accepts(points.radix.digits(blocks)))
        if len(accepted):
            start = int(blocks[accepted[0]])
            return start if step > 0 else start + stride - 1
        block += BLOCKS * step
    return last if step > 0 else first - 1


def _range(start: int, stop: int, step: int) -> IndexArray:
    """Return a range of integers of any size."""
    return start + step * np.arange(max((stop - start) * step, 0)).astype(object)
