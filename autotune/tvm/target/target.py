"""TVM's `target.target`."""

from typing import TYPE_CHECKING

from autotune.target import Target
from autotune.tvm.names import resolver

__all__ = ["Target"]

if not TYPE_CHECKING:
    __getattr__ = resolver(__name__)
