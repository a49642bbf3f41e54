"""TVM's `ir.transform`."""

from typing import TYPE_CHECKING

from autotune.lowering.pass_context import PassContext
from autotune.tvm.names import resolver

__all__ = ["PassContext"]

if not TYPE_CHECKING:
    __getattr__ = resolver(__name__)
