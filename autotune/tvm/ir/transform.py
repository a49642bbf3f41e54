"""TVM's `ir.transform`."""

from typing import TYPE_CHECKING

from autotune.tvm.names import resolver
from autotune.tvm.transform import PassContext, Sequential

__all__ = ["PassContext", "Sequential"]

if not TYPE_CHECKING:
    __getattr__ = resolver(__name__)
