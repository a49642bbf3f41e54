"""TVM's `topi.utils`."""

from typing import TYPE_CHECKING

from autotune.topi.utils import (
    equal_const_int,
    get_const_float,
    get_const_int,
    get_const_tuple,
    traverse_inline,
)
from autotune.tvm.names import resolver

__all__ = [
    "equal_const_int",
    "get_const_float",
    "get_const_int",
    "get_const_tuple",
    "traverse_inline",
]

if not TYPE_CHECKING:
    __getattr__ = resolver(__name__)
