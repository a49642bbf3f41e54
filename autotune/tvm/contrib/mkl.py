"""TVM's `contrib.mkl`: products of matrices by the BLAS of numpy, on a CPU."""

from __future__ import annotations

from autotune.te.tensor import Tensor
from autotune.tvm.contrib.products import product

__all__ = ["batch_matmul", "matmul", "matmul_u8s8s32"]


def matmul(
    lhs: Tensor, rhs: Tensor, transa: bool = False, transb: bool = False, **options: object
) -> Tensor:
    """Return the product of two matrices, with the arguments of `contrib.cblas.matmul`."""
    return product("tvm.contrib.mkl.matmul", lhs, rhs, transa, transb, None, options)


def matmul_u8s8s32(
    lhs: Tensor,
    rhs: Tensor,
    transa: bool = False,
    transb: bool = False,
    dtype: str = "int32",
    **options: object,
) -> Tensor:
    """Return the product of a matrix of uint8 and one of int8, in ``dtype``."""
    return product("tvm.contrib.mkl.matmul_u8s8s32", lhs, rhs, transa, transb, dtype, options)


def batch_matmul(
    lhs: Tensor,
    rhs: Tensor,
    transa: bool = False,
    transb: bool = False,
    iterative: bool = False,
    **options: object,
) -> Tensor:
    """Return products of batches, with the arguments of `contrib.cblas.batch_matmul`."""
    del iterative
    return product("tvm.contrib.mkl.batch_matmul", lhs, rhs, transa, transb, None, options)
