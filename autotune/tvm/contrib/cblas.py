"""TVM's `contrib.cblas`: products of matrices by the BLAS of numpy, on a CPU."""

from __future__ import annotations

from autotune.te.tensor import Tensor
from autotune.tvm.contrib.products import product

__all__ = ["batch_matmul", "matmul"]


def matmul(
    lhs: Tensor, rhs: Tensor, transa: bool = False, transb: bool = False, **options: object
) -> Tensor:
    """Return the product of two matrices.

    Args:
        lhs: the left factor.
        rhs: the right factor.
        transa: whether the left factor is transposed.
        transb: whether the right factor is transposed.
        options: those of `te.extern`.
    """
    return product("tvm.contrib.cblas.matmul", lhs, rhs, transa, transb, None, options)


def batch_matmul(
    lhs: Tensor,
    rhs: Tensor,
    transa: bool = False,
    transb: bool = False,
    iterative: bool = False,
    **options: object,
) -> Tensor:
    """Return the products of two batches of matrices, of which one may have a single matrix.

    Args:
        lhs: the left factors.
        rhs: the right factors.
        transa: whether left factors are transposed.
        transb: whether right factors are transposed.
        iterative: accepted for TVM's scripts.
        options: those of `te.extern`.
    """
    del iterative
    return product("tvm.contrib.cblas.batch_matmul", lhs, rhs, transa, transb, None, options)
