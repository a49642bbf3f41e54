"""TVM's ``ir.container``."""

from autotune.tvm.ir import Array, Map

__all__ = ["Array", "Map"]
