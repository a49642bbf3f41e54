"""TVM's `relay.frontend`: models of other frameworks become modules of relay."""

from autotune.tvm.relay.frontend.onnx import from_onnx
from autotune.tvm.relay.frontend.pytorch import from_pytorch

__all__ = ["from_onnx", "from_pytorch"]
