"""Converters of ONNX's operators, one file a family."""
