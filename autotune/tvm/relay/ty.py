"""TVM's `relay.ty`."""

from autotune.graph import TensorType

__all__ = ["TensorType"]
