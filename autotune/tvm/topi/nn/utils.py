"""TVM's `topi.nn.utils`."""

from typing import TYPE_CHECKING

from autotune.topi.nn.pad import get_pad_tuple, get_pad_tuple1d, get_pad_tuple3d
from autotune.tvm.names import resolver

__all__ = ["get_pad_tuple", "get_pad_tuple1d", "get_pad_tuple3d"]

if not TYPE_CHECKING:
    __getattr__ = resolver(__name__)
