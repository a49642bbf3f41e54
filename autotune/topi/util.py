"""TVM's name of `autotune.topi.utils` up to 0.7."""

from autotune.topi.utils import (
    equal_const_int,
    get_const_float,
    get_const_int,
    get_const_tuple,
    traverse_inline,
)

__all__ = [
    "equal_const_int",
    "get_const_float",
    "get_const_int",
    "get_const_tuple",
    "traverse_inline",
]
