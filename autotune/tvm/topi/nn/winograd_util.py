"""TVM's `topi.nn.winograd_util`."""

from autotune.topi.nn.winograd import winograd_transform_matrices

__all__ = ["winograd_transform_matrices"]
