"""TVM's `topi.utils`."""

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
