"""Importers: models of other frameworks become graphs of autotune."""

from autotune.importers.imported import ImportedNetwork
from autotune.importers.onnx import from_onnx
from autotune.importers.pytorch import (
    Call,
    TorchProgram,
    View,
    exported,
    from_pytorch,
    read_program,
)

__all__ = [
    "Call", "ImportedNetwork", "TorchProgram", "View", "exported", "from_onnx", "from_pytorch",
    "read_program",
]  # fmt: skip
