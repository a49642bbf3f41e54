"""Activations, and the scale and shift that batch normalisation comes down to."""

from __future__ import annotations

from typing import Any

from autotune import te
from autotune.te.tensor import Tensor
from autotune.topi import tag
from autotune.topi.elemwise import elementwise
from autotune.topi.utils import get_const_tuple, normal_axis
from autotune.utils.math import product


def relu(x: Tensor) -> Tensor:
    """Clear negative elements."""
    return elementwise(x, lambda v: te.max(v, te.const(0, x.dtype)))


def leaky_relu(x: Tensor, alpha: float) -> Tensor:
    """Scale negative elements by ``alpha``."""

    def value(v: Any) -> Any:
        return te.Select(v > te.const(0, x.dtype), v, v * te.const(alpha, x.dtype))

    return elementwise(x, value)


def prelu(x: Tensor, slope: Tensor, axis: int = 1) -> Tensor:
    """Scale negative elements by a slope of their channel."""
    at = normal_axis("prelu", axis, x.ndim)
    result: Tensor = te.compute(
        x.shape,
        lambda *i: te.Select(x(*i) > te.const(0, x.dtype), x(*i), x(*i) * slope(i[at])),
        tag=tag.BROADCAST,
    )
    return result


def scale_shift_nchw(data: Tensor, scale: Tensor, shift: Tensor) -> Tensor:
    """Scale and shift each channel of NCHW data: batch normalisation at inference."""
    result: Tensor = te.compute(
        data.shape,
        lambda b, c, i, j: data[b, c, i, j] * scale[c] + shift[c],
        name="ScaleShift",
        tag=tag.BROADCAST,
    )
    return result


def scale_shift_nhwc(data: Tensor, scale: Tensor, shift: Tensor) -> Tensor:
    """Scale and shift each channel of NHWC data: batch normalisation at inference."""
    result: Tensor = te.compute(
        data.shape,
        lambda b, i, j, c: data[b, i, j, c] * scale[c] + shift[c],
        name="ScaleShift",
        tag=tag.BROADCAST,
    )
    return result


def bias_add(data: Tensor, bias: Tensor, axis: int = 1) -> Tensor:
    """Add a bias to each index of an axis."""
    at = normal_axis("bias_add", axis, data.ndim)
    names = [f"ax{i}" for i in range(data.ndim)]
    result: Tensor = te.compute(
        data.shape,
        lambda *i: data(*i) + bias(i[at]),
        "T_add",
        tag.BROADCAST,
        varargs_names=names,
    )
    return result


def flatten(data: Tensor) -> Tensor:
    """Join all dimensions but the first."""
    shape = get_const_tuple(data.shape)

    def body(i: Any, j: Any) -> Any:
        indices: list[Any] = []
        for extent in reversed(shape[1:]):
            indices.append(te.indexmod(j, extent))
            j = te.indexdiv(j, extent)
        return data(i, *reversed(indices))

    result: Tensor = te.compute((shape[0], product(shape[1:])), body, tag=tag.INJECTIVE)
    return result
