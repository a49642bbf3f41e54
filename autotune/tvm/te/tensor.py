"""TVM's `te.tensor`."""

from typing import TYPE_CHECKING

from autotune.te import ComputeOp, Operation, PlaceholderOp, Tensor, TensorSlice
from autotune.tvm.names import resolver

__all__ = ["ComputeOp", "Operation", "PlaceholderOp", "Tensor", "TensorSlice"]

if not TYPE_CHECKING:
    __getattr__ = resolver(__name__)
