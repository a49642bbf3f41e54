"""TVM's `te.tensor`."""

from autotune.te import ComputeOp, Operation, PlaceholderOp, Tensor, TensorSlice

__all__ = ["ComputeOp", "Operation", "PlaceholderOp", "Tensor", "TensorSlice"]
