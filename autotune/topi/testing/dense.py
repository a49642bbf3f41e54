"""Matrix products in numpy."""

from __future__ import annotations

import numpy as np

from autotune.topi.types import Array


def dense(
    x: Array,
    y: Array,
    bias: Array | None = None,
    use_bias: bool = False,
    use_relu: bool = False,
    out_dtype: str | None = None,
) -> Array:
    """Multiply x [batch, in] by the transpose of y [out, in], then bias and relu if asked for."""
    dtype = out_dtype or x.dtype
    out = x.astype(dtype) @ y.T.astype(dtype)
    if use_bias and bias is not None:
        out = out + bias
    return np.asarray(np.maximum(out, 0) if use_relu else out)


def matmul(a: Array, b: Array, transpose_a: bool = False, transpose_b: bool = False) -> Array:
    """Multiply two matrices, each of which may be stored transposed."""
    return np.asarray((a.T if transpose_a else a) @ (b.T if transpose_b else b))


def batch_matmul(
    x: Array,
    y: Array,
    out_dtype: str | None = None,
    trans_x: bool = False,
    trans_y: bool = True,
) -> Array:
    """Multiply batches of matrices; the second is stored transposed unless told otherwise."""
    left = x.transpose(0, 2, 1) if trans_x else x
    right = y.transpose(0, 2, 1) if trans_y else y
    dtype = out_dtype or x.dtype
    return np.asarray(left.astype(dtype) @ right.astype(dtype))
