"""Whether the indices that a network reads and writes at are within their axes."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

from autotune.errors import KernelError
from autotune.graph import Constant, Result, Value, apply, ops
from autotune.importers import Bound

# Operators whose result has the elements of their first input, each at least once.
_SAME = ops.BroadcastTo | ops.Reshape | ops.Transpose


class IndexRangeError(KernelError, IndexError):
    """An index is outside of its axis."""


class IndexChecks:
    """What a network computes beside its results, to say that indices are out of range.

    Kernels cannot raise an error: they limit what they read, and write nothing there.

    Args:
        bounds: of indices.

    Attributes:
        output: a number for each of them, 0 where one of its indices is outside; None if there
            are none.
    """

    def __init__(self, bounds: Iterable[Bound]) -> None:
        # Each once, the first that reads there.
        every = {(_of(each.index), each.first, each.extent): each for each in [*bounds][::-1]}
        self._bounds = list(every.values())
        flags = [_flag(value, *limits) for value, *limits in every]
        joined = apply(ops.Concatenate(0), *flags) if len(flags) > 1 else None
        self.output: Value | None = joined or (flags[0] if flags else None)
        self._flags: Any = None

    def watch(self, flags: Any) -> None:
        """Take the array that the network writes the output to."""
        self._flags = flags

    def __call__(self) -> None:
        """Check the last run.

        Raises:
            IndexRangeError: an index was out of range.
        """
        if self._flags is None or self._flags.all():
            return
        bound = self._bounds[int(np.argmin(self._flags))]
        raise IndexRangeError(
            f"{bound.origin}: indices must be {bound.first} to {bound.extent - 1}; one is not"
        )


def _of(value: Value) -> Value:
    """Return the value with the elements of another, which may have them more than once."""
    while isinstance(value, Result) and isinstance(value.node.op, _SAME):
        value = value.node.inputs[0]
    return value


def _flag(value: Value, first: int, extent: int) -> Value:
    """Return 1, in one dimension, where all elements are within bounds, else 0."""
    wide = apply(ops.Cast("int64"), value)
    least, end = (Constant.of(np.asarray(number), dtype="int64") for number in (first, extent))
    inside = apply(
        ops.LogicalAnd(), apply(ops.GreaterEqual(), wide, least), apply(ops.Less(), wide, end)
    )
    number = apply(ops.Cast("int32"), inside)
    every = apply(ops.Min(None), number) if value.shape else number
    return apply(ops.Reshape((1,)), every)
