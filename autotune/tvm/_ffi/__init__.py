"""TVM's `_ffi`, as far as scripts use it."""

from autotune.tvm._ffi import base
from autotune.tvm.register import get_global_func, register_func

__all__ = ["base", "get_global_func", "register_func"]
