"""TVM's name for the place of the matrices of Winograd's transforms."""

from autotune.topi.nn.winograd import winograd_transform_matrices

__all__ = ["winograd_transform_matrices"]
