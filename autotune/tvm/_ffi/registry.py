"""TVM's `_ffi.registry`."""

from autotune.tvm.register import register_func

__all__ = ["register_func"]
