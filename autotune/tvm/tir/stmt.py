"""TVM's `tir.stmt`."""

from typing import TYPE_CHECKING

from autotune.tvm.names import resolver
from autotune.tvm.tir import *
from autotune.tvm.tir import __all__ as _all

__all__ = [*_all]

if not TYPE_CHECKING:
    __getattr__ = resolver(__name__)
