"""TVM's `topi`: operators as tensor expressions."""

from typing import TYPE_CHECKING

from autotune.topi import *
from autotune.topi import __all__ as _ours
from autotune.topi.utils import equal_const_int, get_const_float, get_const_int, get_const_tuple
from autotune.tvm.names import resolver

__all__ = [
    *_ours,
    "equal_const_int",
    "get_const_float",
    "get_const_int",
    "get_const_tuple",
    "nn",
    "tag",
    "testing",
    "utils",
]

if not TYPE_CHECKING:  # TVM's in place of ours, which have fewer names
    import autotune.tvm.topi.nn as nn
    import autotune.tvm.topi.tag as tag
    import autotune.tvm.topi.testing as testing
    import autotune.tvm.topi.utils as utils

    __getattr__ = resolver(__name__)
