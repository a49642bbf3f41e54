"""Activations, and the scale and shift that batch normalisation comes down to."""

from __future__ import annotations

from math import prod

from autotune import te
from autotune.ir import Expr
from autotune.te.tensor import Tensor
from autotune.topi import tag
from autotune.topi.arguments import asks, number, same_shape, takes, tensor
from autotune.topi.elemwise import elementwise
from autotune.topi.utils import get_const_tuple, normal_axis


@takes(x=tensor)
def relu(x: Tensor) -> Tensor:
    """Clear negative elements."""
    return elementwise(x, lambda v: te.max(v, te.const(0, x.dtype)))


@takes(x=tensor, alpha=number)
def leaky_relu(x: Tensor, alpha: float) -> Tensor:
    """Scale negative elements by ``alpha``."""

    def value(v: Expr) -> Expr:
        return te.Select(v > te.const(0, x.dtype), v, v * te.const(alpha, x.dtype))

    return elementwise(x, value)


@takes(x=tensor, slope=tensor)
def prelu(x: Tensor, slope: Tensor, axis: int = 1) -> Tensor:
    """Scale negative elements by a slope of their channel."""
    at = normal_axis("prelu", axis, x.ndim)
    same_shape(asks("prelu"), "slope", slope, (x.shape[at],))
    result: Tensor = te.compute(
        x.shape,
        lambda *i: te.Select(x(*i) > te.const(0, x.dtype), x(*i), x(*i) * slope(i[at])),
        tag=tag.BROADCAST,
    )
    return result


@takes(data=tensor, scale=tensor, shift=tensor)
def scale_shift_nchw(data: Tensor, scale: Tensor, shift: Tensor) -> Tensor:
    """Scale and shift each channel of NCHW data: batch normalisation at inference."""
    _check_channels("scale_shift_nchw", data, 1, scale, shift)
    result: Tensor = te.compute(
        data.shape,
        lambda b, c, i, j: data[b, c, i, j] * scale[c] + shift[c],
        name="ScaleShift",
        tag=tag.BROADCAST,
    )
    return result


@takes(data=tensor, scale=tensor, shift=tensor)
def scale_shift_nhwc(data: Tensor, scale: Tensor, shift: Tensor) -> Tensor:
    """Scale and shift each channel of NHWC data: batch normalisation at inference."""
    _check_channels("scale_shift_nhwc", data, 3, scale, shift)
    result: Tensor = te.compute(
        data.shape,
        lambda b, i, j, c: data[b, i, j, c] * scale[c] + shift[c],
        name="ScaleShift",
        tag=tag.BROADCAST,
    )
    return result


def _check_channels(what: str, data: Tensor, at: int, scale: Tensor, shift: Tensor) -> None:
    """Refuse images of other than four dimensions, and what has not one value a channel."""
    check = asks(what)
    if data.ndim != 4:
        check.refuse("data", "a tensor of 4 dimensions", data)
    same_shape(check, "scale", scale, (data.shape[at],))
    same_shape(check, "shift", shift, (data.shape[at],))


@takes(data=tensor, bias=tensor)
def bias_add(data: Tensor, bias: Tensor, axis: int = 1) -> Tensor:
    """Add a bias to each index of an axis."""
    at = normal_axis("bias_add", axis, data.ndim)
    same_shape(asks("bias_add"), "bias", bias, (data.shape[at],))
    names = [f"ax{i}" for i in range(data.ndim)]
    result: Tensor = te.compute(
        data.shape,
        lambda *i: data(*i) + bias(i[at]),
        "T_add",
        tag.BROADCAST,
        varargs_names=names,
    )
    return result


@takes(data=tensor)
def flatten(data: Tensor) -> Tensor:
    """Join all dimensions but the first."""
    if not data.ndim:
        asks("flatten").refuse("data", "a tensor of at least one dimension", data)
    shape = get_const_tuple(data.shape)

    def body(i: Expr, j: Expr) -> Expr:
        indices: list[Expr] = []
        for extent in reversed(shape[1:]):
            indices.append(te.indexmod(j, extent))
            j = te.indexdiv(j, extent)
        return data(i, *reversed(indices))

    result: Tensor = te.compute((shape[0], prod(shape[1:])), body, tag=tag.INJECTIVE)
    return result
