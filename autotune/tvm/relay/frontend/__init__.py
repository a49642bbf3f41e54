"""TVM's `relay.frontend`: models of other frameworks become modules of relay."""

from typing import TYPE_CHECKING

from autotune.tvm.names import resolver
from autotune.tvm.relay.frontend.onnx import from_onnx

__all__ = ["from_onnx"]

if not TYPE_CHECKING:
    __getattr__ = resolver(__name__)
