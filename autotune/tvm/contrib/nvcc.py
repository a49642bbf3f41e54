"""TVM's `contrib.nvcc`, which scripts import for a callback that compiles; see `register_func`."""

from typing import TYPE_CHECKING

from autotune.tvm.names import resolver

__all__: list[str] = []

if not TYPE_CHECKING:
    __getattr__ = resolver(__name__)
