"""TVM's `_ffi`, as far as scripts use it."""

from typing import TYPE_CHECKING

from autotune.tvm._ffi import base
from autotune.tvm.names import resolver
from autotune.tvm.register import register_func

__all__ = ["base", "register_func"]

if not TYPE_CHECKING:
    __getattr__ = resolver(__name__)
