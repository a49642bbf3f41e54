"""TVM's `_ffi.registry`."""

from autotune.tvm.register import get_global_func, register_func

__all__ = ["get_global_func", "register_func"]
