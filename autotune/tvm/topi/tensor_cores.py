"""TVM's operators for tensor cores: products of 16-bit floats.

The rules that all functions ``schedule_...`` follow choose tensor cores for such products.
"""

from __future__ import annotations

from collections.abc import Sequence

from autotune.te.tensor import Tensor
from autotune.topi import nn
from autotune.topi.elemwise import cast

__all__ = ["batch_matmul_tensorcore", "conv2d_nhwc_tensorcore", "dense_tensorcore"]

_HALVES = ("float16", "bfloat16")


def dense_tensorcore(
    data: Tensor, weight: Tensor, bias: Tensor | None = None, out_dtype: str | None = None
) -> Tensor:
    """Do what `topi.nn.dense` does, with operands that are rounded to float16.

    Args:
        data, weight, bias: as of `topi.nn.dense`.
        out_dtype: of the result; by default that of the data.
    """
    return nn.dense(_half(data), _half(weight), bias, out_dtype or data.dtype)


def batch_matmul_tensorcore(
    x: Tensor,
    y: Tensor,
    out_shape: object = None,
    out_dtype: str | None = None,
    transpose_a: bool = False,
    transpose_b: bool = True,
) -> Tensor:
    """Do what `topi.nn.batch_matmul` does, with operands that are rounded to float16.

    Args:
        x, y, transpose_a, transpose_b: as of `topi.nn.batch_matmul`.
        out_shape: accepted for scripts of TVM.
        out_dtype: of the result; by default that of the operands.
    """
    del out_shape
    return nn.batch_matmul(
        _half(x), _half(y), None, out_dtype or x.dtype, transpose_a, transpose_b
    )


def conv2d_nhwc_tensorcore(
    data: Tensor,
    kernel: Tensor,
    strides: int | Sequence[int],
    padding: int | str | Sequence[int],
    dilation: int | Sequence[int] = 1,
    out_dtype: str | None = None,
) -> Tensor:
    """Do what `topi.nn.conv2d_nhwc` does, with operands that are rounded to float16.

    Args:
        data, kernel, strides, padding, dilation: as of `topi.nn.conv2d_nhwc`.
        out_dtype: of the result; by default that of the data.
    """
    kind = out_dtype or data.dtype
    return nn.conv2d_nhwc(_half(data), _half(kernel), strides, padding, dilation, kind)


def _half(x: Tensor) -> Tensor:
    return x if x.dtype in _HALVES else cast(x, "float16")
