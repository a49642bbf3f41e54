"""TVM's `tir.ir_builder`: statements written by hand."""

from autotune.te.ir_builder import BufferVar, IRBuilder, create

__all__ = ["BufferVar", "IRBuilder", "create"]
