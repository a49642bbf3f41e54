"""TVM's `topi.utils`."""

from typing import TYPE_CHECKING

from autotune.topi import tag
from autotune.topi.nn import const_matrix
from autotune.topi.utils import (
    equal_const_int,
    get_const_float,
    get_const_int,
    get_const_tuple,
    ravel_index,
    simplify,
    traverse_inline,
    unravel_index,
)
from autotune.tvm.names import resolver

__all__ = [
    "const_matrix",
    "equal_const_int",
    "get_const_float",
    "get_const_int",
    "get_const_tuple",
    "ravel_index",
    "simplify",
    "tag",
    "traverse_inline",
    "unravel_index",
]

if not TYPE_CHECKING:
    __getattr__ = resolver(__name__)
