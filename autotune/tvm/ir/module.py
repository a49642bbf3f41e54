"""TVM's `ir.module`."""

from autotune.tvm.relay.function import IRModule

__all__ = ["IRModule"]
