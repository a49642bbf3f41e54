"""TVM's name of `topi.nn.utils` up to 0.7."""

from typing import TYPE_CHECKING

from autotune.topi.nn.pad import get_pad_tuple, get_pad_tuple1d, get_pad_tuple3d
from autotune.topi.utils import get_const_int as get_const_int
from autotune.tvm.names import resolver

__all__ = ["get_pad_tuple", "get_pad_tuple1d", "get_pad_tuple3d"]

if not TYPE_CHECKING:
    __getattr__ = resolver(__name__)
