"""Importers: models of other frameworks become graphs of autotune."""

from autotune.importers.imported import ImportedNetwork
from autotune.importers.onnx import from_onnx

__all__ = ["ImportedNetwork", "from_onnx"]
