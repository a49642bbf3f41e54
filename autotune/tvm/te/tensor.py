"""TVM's `te.tensor`."""

from autotune.te import ComputeOp, Operation, PlaceholderOp, ScanOp, Tensor, TensorSlice

__all__ = ["ComputeOp", "Operation", "PlaceholderOp", "ScanOp", "Tensor", "TensorSlice"]
