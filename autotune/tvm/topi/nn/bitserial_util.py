"""TVM's `topi.nn.bitserial_util`."""

from typing import TYPE_CHECKING

from autotune.topi.nn.bitserial import binary_op_multiplier, bitpack
from autotune.tvm.names import resolver

__all__ = ["binary_op_multiplier", "bitpack"]

if not TYPE_CHECKING:
    __getattr__ = resolver(__name__)
