"""Valid points in index order, across the long gaps that filters leave."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from autotune.task.radix import IndexArray
from autotune.task.valid_points import ValidPoints

# Indices looked at together while searching; grows from the first to the second.
FIRST_WIDTH, LAST_WIDTH = 64, 1 << 16
# Blocks skipped together.
BLOCKS = 1 << 12


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
