"""Dilation: inserts a value between the elements of a tensor."""

from __future__ import annotations

from collections.abc import Sequence

from autotune import te
from autotune.ir import Expr
from autotune.te.tensor import Tensor
from autotune.topi import tag
from autotune.topi.arguments import asks, integers, number, takes, tensor, text
from autotune.topi.utils import axis_names


@takes(data=tensor, strides=integers(1), dilation_value=number, name=text)
def dilate(
    data: Tensor,
    strides: Sequence[int],
    dilation_value: float = 0.0,
    name: str = "DilatedInput",
) -> Tensor:
    """Put ``strides`` of each dimension from one element to the next.

    Args:
        data: the tensor.
        strides: distances, one for each dimension; 1 leaves a dimension as it is.
        dilation_value: what stands between.
        name: name of the result.
    """
    if len(strides) != data.ndim:
        asks("dilate").refuse("strides", f"{data.ndim} distances, one a dimension", strides)
    between = te.const(dilation_value, data.dtype)

    def body(*i: Expr) -> Expr:
        apart = [(index, step) for index, step in zip(i, strides, strict=True) if step > 1]
        at = [
            te.indexdiv(index, step) if step > 1 else index
            for index, step in zip(i, strides, strict=True)
        ]
        there = [te.indexmod(index, step) == 0 for index, step in apart]
        return te.if_then_else(te.all(*there), data(*at), between) if there else data(*at)

    shape = [(n - 1) * step + 1 for n, step in zip(data.shape, strides, strict=True)]
    result: Tensor = te.compute(
        shape, body, name, f"{tag.INJECTIVE},dilate", varargs_names=axis_names(data.ndim, "i")
    )
    return result
