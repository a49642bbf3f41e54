"""TVM's `_ffi.registry`."""

from typing import TYPE_CHECKING

from autotune.tvm.names import resolver
from autotune.tvm.register import register_func

__all__ = ["register_func"]

if not TYPE_CHECKING:
    __getattr__ = resolver(__name__)
