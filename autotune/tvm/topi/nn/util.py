"""TVM's name of `topi.nn.utils` up to 0.7."""

from autotune.topi.nn.pad import get_pad_tuple, get_pad_tuple1d, get_pad_tuple3d
from autotune.topi.utils import get_const_int as get_const_int

__all__ = ["get_pad_tuple", "get_pad_tuple1d", "get_pad_tuple3d"]
