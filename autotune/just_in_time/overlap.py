"""Checks whether the results of a call lie in the memory of its inputs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from autotune.errors import TunerError
from autotune.runtime import NDArray


class Overlap:
    """Refuses calls of an operator in which a result lies in the memory of an input.

    Args:
        owner: the function that is called.
        inputs: how many of its arguments are inputs; those behind them are its results.
        results: how many these are.
        in_place: whether a result may be an input of as many elements: each element of the result
            depends on the one in its place alone.
    """

    def __init__(self, owner: str, inputs: int, results: int, in_place: bool) -> None:
        self._owner = owner
        self._in_place = in_place
        self._pairs = [(i, inputs + j) for j in range(results) for i in range(inputs)]

    def check(self, args: Sequence[object]) -> None:
        """Raise if a result lies in the memory of an input.

        Raises:
            TunerError: a kernel may write elements there before it has read them.
        """
        for source, number in self._pairs:
            given, result = args[source], args[number]
            if not _may_overlap(given, result):
                continue
            if not (self._in_place and _is_same(given, result)):
                raise TunerError(
                    f"{self._owner}: argument {number}, a result, lies in the memory of argument "
                    f"{source}, which is read while it is written; pass an array of its own"
                )


def _may_overlap(a: Any, b: Any) -> bool:
    """Return whether the bytes between the first and last elements of two arrays meet."""
    if isinstance(a, np.ndarray) and isinstance(b, np.ndarray):
        return np.may_share_memory(a, b)
    first, second = _start(a), _start(b)
    if first is None or second is None:
        return a is b
    if first <= second:
        return second < first + _span(a)
    return first < second + _span(b)


def _is_same(a: Any, b: Any) -> bool:
    """Return whether two arrays that overlap are the same elements in the same order."""
    if a is b:
        return True
    if a.shape != b.shape or a.dtype != b.dtype:
        return False
    if isinstance(a, np.ndarray) and isinstance(b, np.ndarray):
        return a.ctypes.data == b.ctypes.data and a.strides == b.strides
    return _start(a) == _start(b)


def _start(array: Any) -> int | None:
    """Return the address of the first element; None of arrays of other libraries.

    Tensors on a GPU are contiguous, others are copied where they are not.
    """
    if isinstance(array, NDArray):
        return array.pointer
    if isinstance(array, np.ndarray):
        return int(array.ctypes.data)
    address = getattr(array, "data_ptr", None)
    return None if address is None else int(address())


def _span(array: Any) -> int:
    """Return the bytes from the first element to the end of the last one."""
    if not hasattr(array, "is_contiguous") or array.is_contiguous():
        return int(array.nbytes)
    # Of a tensor's elements some may share memory, and there may be others between them.
    steps = sum((n - 1) * step for n, step in zip(array.shape, array.stride(), strict=True))
    return int((steps + 1) * array.element_size())
