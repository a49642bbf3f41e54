"""Functions of libraries that kernels on the CPU call by TVM's names: products, random numbers.

Products are numpy's, which has a BLAS of its own.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from autotune.runtime.arrays.array import HostArray, NDArray

Function = Callable[..., object]
# Matrices of integers are multiplied in this type where results are integers.
_WIDE = np.int64


def _values(array: NDArray) -> HostArray:
    """Return the values of an array on the host, of which nothing is copied."""
    lent: Any = array
    return array.numpy() if array.dtype == "bfloat16" else np.from_dlpack(lent)


def _turned(array: NDArray, transposed: object) -> HostArray:
    values = _values(array)
    return np.swapaxes(values, -1, -2) if transposed else values


def matmul(
    lhs: NDArray, rhs: NDArray, out: NDArray, transa: object = False, transb: object = False
) -> None:
    """Multiply matrices, or batches of them, one of which may be single.

    Args:
        lhs: the left factor.
        rhs: the right factor.
        out: gets the product.
        transa: whether the left factor is transposed.
        transb: whether the right factor is transposed.
    """
    a, b = _turned(lhs, transa), _turned(rhs, transb)
    wide = _WIDE if out.dtype.startswith(("int", "uint")) else np.dtype(out.numpy().dtype)
    out.copyfrom(np.matmul(a.astype(wide, copy=False), b.astype(wide, copy=False)))


_generator = np.random.default_rng()


def seed(number: int) -> None:
    """Begin random numbers anew."""
    global _generator
    _generator = np.random.default_rng(number)


def uniform(low: float, high: float, out: NDArray) -> None:
    """Fill an array with numbers between two others."""
    out.copyfrom(_generator.uniform(low, high, out.shape))


def normal(loc: float, scale: float, out: NDArray) -> None:
    """Fill an array with numbers of a normal distribution."""
    out.copyfrom(_generator.normal(loc, scale, out.shape))


def randint(low: int, high: int, out: NDArray) -> None:
    """Fill an array with integers from one number to below another."""
    out.copyfrom(_generator.integers(low, high, out.shape))


_PRODUCTS = {
    f"tvm.contrib.{library}.{name}": matmul
    for library, names in (
        ("cblas", ("matmul", "batch_matmul", "batch_matmul_iterative")),
        ("mkl", ("matmul", "batch_matmul", "batch_matmul_iterative", "matmul_u8s8s32")),
        ("mkldnn", ("matmul",)),
        ("dnnl", ("matmul",)),
    )
    for name in names
}
LIBRARY_FUNCTIONS: dict[str, Callable[..., Any]] = {
    **_PRODUCTS,
    "tvm.contrib.random.seed": seed,
    "tvm.contrib.random.uniform": uniform,
    "tvm.contrib.random.normal": normal,
    "tvm.contrib.random.randint": randint,
}
