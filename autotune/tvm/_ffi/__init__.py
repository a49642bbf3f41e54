"""TVM's `_ffi`, as far as scripts use it: for the class of its errors."""

from typing import TYPE_CHECKING

from autotune.tvm._ffi import base
from autotune.tvm.names import resolver

__all__ = ["base"]

if not TYPE_CHECKING:
    __getattr__ = resolver(__name__)
