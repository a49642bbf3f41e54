"""TVM's `ir.transform`."""

from autotune.tvm.transform import PassContext, Sequential

__all__ = ["PassContext", "Sequential"]
