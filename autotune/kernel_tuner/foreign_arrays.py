"""Arrays of other libraries among the arguments of a script: PyTorch's and CuPy's."""

from __future__ import annotations

from importlib import import_module
from typing import Any

import numpy as np

from autotune.runtime.arrays.array import numpy_dtype


def on_host(value: Any) -> Any:
    """Return a copy in numpy of an array of PyTorch or CuPy, and anything else as it is."""
    if isinstance(value, np.ndarray | np.generic) or not hasattr(value, "__dlpack__"):
        return value
    if callable(getattr(value, "detach", None)):
        held = value.detach().cpu().resolve_conj().resolve_neg()
        if str(held.dtype) == "torch.bfloat16":  # numpy's own numbers have no such type
            bits = held.contiguous().view(import_module("torch").int16)
            return bits.numpy().view(numpy_dtype("bfloat16"))
        return held.numpy()
    return value.get() if callable(getattr(value, "get", None)) else np.from_dlpack(value)


def in_numbers(value: Any) -> Any:
    """Return an array of complex numbers as one of their two parts, and anything else as it is."""
    value = on_host(value)
    if isinstance(value, np.ndarray) and np.iscomplexobj(value):
        return np.ascontiguousarray(value).view(value.real.dtype)
    return value


def like(found: Any, given: Any) -> Any:
    """Return what a kernel wrote as an array of complex numbers, if such a one was given."""
    given = on_host(given)
    if isinstance(given, np.ndarray) and np.iscomplexobj(given):
        return found.view(given.dtype).reshape(given.shape)
    return found


def is_elsewhere(value: Any) -> bool:
    """Return whether a value is an array in the memory of a device."""
    if isinstance(value, np.ndarray | np.generic) or not hasattr(value, "__dlpack_device__"):
        return False
    kind, _ = value.__dlpack_device__()
    return int(kind) != 1  # the CPU of dlpack.h
