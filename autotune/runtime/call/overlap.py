"""Whether what a call writes lies in the memory of its other arguments."""

from __future__ import annotations

from collections.abc import Sequence

from autotune.errors import KernelError
from autotune.kernel.kernel import Kernel, Scalar
from autotune.runtime.arrays.array import NDArray


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
                raise KernelError(
                    f"{kernel.name}: argument {written.name!r}, which is written, lies in the "
                    f"memory of argument {other.name!r}; pass an array of its own"
                )


def _overlap(one: NDArray, other: NDArray) -> bool:
    first, second = one.pointer, other.pointer
    return first < second + other.nbytes and second < first + one.nbytes


def _is_same(one: NDArray, other: NDArray) -> bool:
    return one.pointer == other.pointer and one.nbytes == other.nbytes
