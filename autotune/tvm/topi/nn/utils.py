"""TVM's `topi.nn.utils`."""

from autotune.topi.nn.pad import get_pad_tuple, get_pad_tuple1d, get_pad_tuple3d

__all__ = ["get_pad_tuple", "get_pad_tuple1d", "get_pad_tuple3d"]
