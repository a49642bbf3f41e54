"""TVM's `topi.nn.winograd_util`."""

from typing import TYPE_CHECKING

from autotune.topi.nn.winograd import winograd_transform_matrices
from autotune.tvm.names import resolver

__all__ = ["winograd_transform_matrices"]

if not TYPE_CHECKING:
    __getattr__ = resolver(__name__)
