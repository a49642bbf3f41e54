"""Arrays of the host that are not contiguous, for a kernel that sees them in another shape."""

from __future__ import annotations

import sys
from typing import Any

import numpy as np

from autotune.errors import KernelError
from autotune.runtime.arrays.bind import refuse_lost_results


def is_torch(value: object) -> bool:
    """Return whether it is a tensor of torch, or of a class derived there."""
    return type(value).__module__.partition(".")[0] == "torch"


def refuse_strided(where: str, value: Any, written: bool) -> None:
    """Raise where an array that is not contiguous cannot be copied, or not back.

    Args:
        where: which argument it is.
        value: an array of numpy or a tensor of torch.
        written: whether the kernel writes it.

    Raises:
        KernelError: it is on a device; or results that are copied there would be lost.
    """
    if is_torch(value) and value.device.type != "cpu":
        raise KernelError(
            f"{where}: expected a contiguous array, got one of shape {tuple(value.shape)} whose "
            "elements lie apart; copy it first"
        )
    if written and is_torch(value):
        refuse_lost_results(where, value.shape, value.stride(), True)
    elif written:
        refuse_lost_results(where, value.shape, value.strides, value.flags.writeable)


def contiguous_copy(value: Any, shape: tuple[int, ...]) -> Any:
    """Return the elements in another shape, in memory of their own."""
    if is_torch(value):
        return value.contiguous().view(shape)
    return np.ascontiguousarray(value).reshape(shape)


def copy_back(value: Any, copy: Any) -> None:
    """Copy results to the array that the caller passed."""
    if is_torch(value):
        with sys.modules["torch"].no_grad():
            value.copy_(copy.view(value.shape))
    else:
        np.copyto(value, copy.reshape(value.shape))
