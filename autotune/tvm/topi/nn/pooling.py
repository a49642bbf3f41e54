"""TVM's `topi.nn.pooling`."""

from autotune.topi.nn.pooling import adaptive_pool, global_pool, pool2d
from autotune.tvm.topi.nn import pool
from autotune.tvm.topi.nn.rearranging import pool1d, pool3d

__all__ = ["adaptive_pool", "global_pool", "pool", "pool1d", "pool2d", "pool3d"]
