"""TVM's `topi.nn.pooling`."""

from typing import TYPE_CHECKING

from autotune.topi.nn.pooling import adaptive_pool, global_pool, pool2d
from autotune.tvm.names import resolver
from autotune.tvm.topi.nn import pool

__all__ = ["adaptive_pool", "global_pool", "pool", "pool2d"]

if not TYPE_CHECKING:
    __getattr__ = resolver(__name__)
