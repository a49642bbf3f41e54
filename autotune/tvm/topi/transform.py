"""TVM's `topi.transform`: a part of its operators, here all of them."""

from autotune.tvm.topi import *
from autotune.tvm.topi import __all__ as _all

__all__ = [*_all]
