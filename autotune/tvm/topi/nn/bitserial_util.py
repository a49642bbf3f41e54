"""TVM's `topi.nn.bitserial_util`."""

from autotune.topi.nn.bitserial import binary_op_multiplier, bitpack

__all__ = ["binary_op_multiplier", "bitpack"]
