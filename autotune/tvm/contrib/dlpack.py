"""TVM's `contrib.dlpack`: functions for the tensors of other libraries."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

F = TypeVar("F", bound=Callable[..., object])

__all__ = ["convert_func", "to_pytorch_func"]


def convert_func(tvm_func: F, tensor_type: type, to_dlpack_func: Callable[..., object]) -> F:
    """Return the function: it takes DLPack arrays of any library as they are."""
    del tensor_type, to_dlpack_func
    return tvm_func


def to_pytorch_func(tvm_func: F) -> F:
    """Return the function: it takes torch's tensors as they are."""
    return tvm_func
