"""Whether what a call writes lies in the memory of its other arguments."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from itertools import combinations
from typing import Any

import numpy as np

from autotune.errors import KernelError
from autotune.kernel.kernel import Kernel, Scalar
from autotune.runtime.arrays.array import NDArray
from autotune.runtime.device import DEVICE_TYPES

# Candidates that numpy may try to find out whether strided arrays share an element.
_MOST_WORK = 10_000


def require_results_apart(kernel: Kernel, values: Sequence[object]) -> None:
    """Refuse host arrays for two results that share memory.

    Called where arrays were copied: the copies lie apart, but of two results that are copied back
    to one place the last would remain.

    Args:
        kernel: what is called.
        values: the arguments as the caller passed them.

    Raises:
        KernelError: two of them share an element.
    """
    pairs = zip(kernel.args, values, strict=True)
    given = [
        (each, _on_host(value))
        for each, value in pairs
        if not isinstance(each, Scalar) and each.role != "in"
    ]
    for (written, one), (other, second) in combinations(given, 2):
        if one is not None and second is not None and _share(one, second):
            raise _refusal(kernel, written.name, other.name)


def _on_host(value: Any) -> np.ndarray[Any, Any] | None:
    """Return an array as numpy sees it; None for what is elsewhere, or unknown to numpy."""
    if isinstance(value, np.ndarray):
        return value
    # Asked first: what lies elsewhere would be lent, only to be refused by numpy.
    device = getattr(value, "__dlpack_device__", None)
    if device is None or device()[0] != DEVICE_TYPES["cpu"]:
        return None
    with suppress(BufferError, RuntimeError, TypeError, ValueError, AttributeError):
        return np.from_dlpack(value)
    return None


def _share(one: np.ndarray[Any, Any], other: np.ndarray[Any, Any]) -> bool:
    with suppress(RuntimeError):  # numpy gave up
        return np.shares_memory(one, other, max_work=_MOST_WORK)  # type: ignore[arg-type]
    return True


def _refusal(kernel: Kernel, written: str, other: str) -> KernelError:
    return KernelError(
        f"{kernel.name}: argument {written!r}, which is written, lies in the memory of argument "
        f"{other!r}; pass an array of its own"
    )


def require_apart(kernel: Kernel, arrays: Sequence[NDArray]) -> None:
    """Refuse arguments that share memory with one that is written.

    One array as a whole may be both an input and an output: kernels in which each element depends
    on its own place alone compute it in place. The C launcher decides by the same rule, and leaves
    such calls to Python.

    Args:
        kernel: what is called.
        arrays: dense arrays that fit its arguments.

    Raises:
        KernelError: two of them overlap.
    """
    given = [
        (argument, array)
        for argument, array in zip(kernel.args, arrays, strict=True)
        if not isinstance(argument, Scalar)
    ]
    for written, result in given:
        if written.role == "in":
            continue
        for other, array in given:
            if other is written or not _overlap(result, array):
                continue
            if other.role != "in" or not _is_same(result, array):
                raise _refusal(kernel, written.name, other.name)


def _overlap(one: NDArray, other: NDArray) -> bool:
    first, second = one.pointer, other.pointer
    return first < second + other.nbytes and second < first + one.nbytes


def _is_same(one: NDArray, other: NDArray) -> bool:
    return one.pointer == other.pointer and one.nbytes == other.nbytes
