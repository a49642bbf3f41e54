"""TVM's `contrib`: helpers around it."""

from typing import TYPE_CHECKING

from autotune.tvm.names import resolver

if not TYPE_CHECKING:
    __getattr__ = resolver(__name__)
