"""TVM's `tir.expr`."""

from autotune.tvm.tir import *
from autotune.tvm.tir import __all__ as _all

__all__ = [*_all]
