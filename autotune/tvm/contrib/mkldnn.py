"""TVM's `contrib.mkldnn`: products of matrices by the BLAS of numpy, on a CPU."""

from __future__ import annotations

from autotune.te.tensor import Tensor
from autotune.tvm.contrib.products import product

__all__ = ["matmul"]


def matmul(
    lhs: Tensor, rhs: Tensor, transa: bool = False, transb: bool = False, **options: object
) -> Tensor:
    """Return the product of two matrices, with the arguments of `contrib.cblas.matmul`."""
    return product("tvm.contrib.mkldnn.matmul", lhs, rhs, transa, transb, None, options)
