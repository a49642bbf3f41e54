"""Reads models in ONNX."""

from autotune.importers.onnx.importer import from_onnx

__all__ = ["from_onnx"]
