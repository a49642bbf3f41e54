"""The accumulator type of 16-bit floats: float32, as in PyTorch and in all templates.

In their own type a sum of a thousand bfloat16 may be wrong in its second digit.
"""

from __future__ import annotations

from collections.abc import Callable

from autotune import topi
from autotune.te.tensor import Tensor

_SUMS = {"float16": "float32", "bfloat16": "float32"}


def sums_of(dtype: str) -> str:
    """Return the type in which elements of a type are added up."""
    return _SUMS.get(dtype, dtype)


def rounded(total: Tensor, dtype: str) -> Tensor:
    """Return sums as elements of the type that was added up."""
    return total if sums_of(dtype) == dtype else topi.cast(total, dtype)


def summed(compute: Callable[[Tensor], Tensor], data: Tensor) -> Tensor:
    """Return what a function makes of data, computed in the type of its sums."""
    kind = sums_of(data.dtype)
    return rounded(compute(data if kind == data.dtype else topi.cast(data, kind)), data.dtype)
