"""TVM's `ir.module`."""

from typing import TYPE_CHECKING

from autotune.tvm.names import resolver
from autotune.tvm.relay.function import IRModule

__all__ = ["IRModule"]

if not TYPE_CHECKING:
    __getattr__ = resolver(__name__)
