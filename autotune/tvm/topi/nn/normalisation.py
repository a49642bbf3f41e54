"""TVM's norms of `topi.nn` that are made of other operators."""

from __future__ import annotations

from collections.abc import Sequence

from autotune import te, topi
from autotune.errors import ExpressionError
from autotune.ir import Expr
from autotune.te.tensor import Tensor
from autotune.topi.nn import pad
from autotune.topi.utils import static_shape
from autotune.utils.check import Check

__all__ = ["batch_norm", "group_norm", "instance_norm", "l2_normalize", "lrn"]


def lrn(
    data: Tensor,
    size: int,
    axis: int = 1,
    alpha: float = 0.0001,
    beta: float = 0.75,
    bias: float = 2,
) -> Tensor:
    """Divide by a power of the mean of the squares of neighbours (local response normalisation).

    ``data / (bias + alpha * mean(data ** 2)) ** beta``, the mean over ``size`` neighbours along
    the axis; those outside count as zeros.

    Raises:
        ExpressionError: the size is not odd, or there is no such axis.
    """
    check = Check(ExpressionError, "lrn")
    if check.whole("size", size, least=1) % 2 == 0:
        check.refuse("size", "an odd number of neighbours", size)
    at = _axis(check, axis, data)
    beside = [size // 2 if dim == at else 0 for dim in range(data.ndim)]
    padded, near = pad(data, beside), te.reduce_axis((0, size), name="near")

    def squares(*i: Expr) -> Expr:
        value = padded(*[x + near if dim == at else x for dim, x in enumerate(i)])
        return te.sum(value * value, axis=near)

    total = te.compute(data.shape, squares, name="lrn_sqr_sum")
    mean = topi.add(topi.multiply(total, alpha / size), bias)
    return topi.divide(data, topi.power(mean, beta))


def l2_normalize(data: Tensor, eps: float, axis: int | Sequence[int] | None = None) -> Tensor:
    """Divide by the root of the sum of squares over axes, which is at least ``sqrt(eps)``."""
    squares = topi.sum(topi.multiply(data, data), axis=axis, keepdims=True)
    return topi.divide(data, topi.sqrt(topi.maximum(squares, eps)))


def batch_norm(
    data: Tensor,
    gamma: Tensor,
    beta: Tensor,
    moving_mean: Tensor,
    moving_var: Tensor,
    axis: int | None = None,
    epsilon: float | None = None,
    center: bool | None = None,
    scale: bool | None = None,
) -> list[Tensor]:
    """Normalise channels by given means and variances, as in inference.

    Returns:
        The result, and the mean and the variance unchanged.
    """
    at = _axis(Check(ExpressionError, "batch_norm"), 1 if axis is None else axis, data)
    extents = static_shape("batch_norm", "data", data, data.ndim)
    shape = [extent if dim == at else 1 for dim, extent in enumerate(extents)]
    mean, variance, factor, shift = (
        topi.reshape(each, shape) for each in (moving_mean, moving_var, gamma, beta)
    )
    deviation = topi.sqrt(topi.add(variance, 1e-5 if epsilon is None else epsilon))
    found = topi.divide(topi.subtract(data, mean), deviation)
    found = found if scale is False else topi.multiply(found, factor)
    return [found if center is False else topi.add(found, shift), moving_mean, moving_var]


def group_norm(
    data: Tensor,
    gamma: Tensor | None,
    beta: Tensor | None,
    num_groups: int,
    channel_axis: int,
    axes: Sequence[int],
    epsilon: float = 1e-5,
) -> Tensor:
    """Normalise groups of channels by their own means and variances.

    Args:
        data: a tensor of any rank.
        gamma, beta: factors and shifts of the channels; None for 1 and 0.
        num_groups: of channels that are neighbours.
        channel_axis: the axis of the channels.
        axes: over which means are taken beside those of a group, without ``channel_axis``.
        epsilon: is added to the variance.

    Raises:
        ExpressionError: the groups do not divide the channels, or there are no such axes.
    """
    check = Check(ExpressionError, "group_norm")
    extents = static_shape("group_norm", "data", data, data.ndim)
    at = _axis(check, channel_axis, data)
    if extents[at] % check.whole("num_groups", num_groups, least=1):
        check.refuse("num_groups", f"a number that divides {extents[at]} channels", num_groups)
    apart = [*extents[:at], num_groups, extents[at] // num_groups, *extents[at + 1 :]]
    over = [_axis(check, axis, data) for axis in axes]
    over = [at + 1, *(axis + (axis > at) for axis in over if axis != at)]
    grouped = topi.reshape(data, apart)
    count = 1.0
    for axis in over:
        count *= apart[axis]
    mean = topi.divide(topi.sum(grouped, axis=over, keepdims=True), count)
    centred = topi.subtract(grouped, mean)
    variance = topi.divide(
        topi.sum(topi.multiply(centred, centred), axis=over, keepdims=True), count
    )
    found = topi.divide(centred, topi.sqrt(topi.add(variance, epsilon)))
    found = topi.reshape(found, extents)
    shape = [extent if dim == at else 1 for dim, extent in enumerate(extents)]
    if gamma is not None:
        found = topi.multiply(found, topi.reshape(gamma, shape))
    return found if beta is None else topi.add(found, topi.reshape(beta, shape))


def instance_norm(
    data: Tensor,
    gamma: Tensor | None,
    beta: Tensor | None,
    channel_axis: int,
    axis: Sequence[int],
    epsilon: float = 1e-5,
) -> Tensor:
    """Normalise each channel of each image by its own mean and variance; see `group_norm`."""
    at = _axis(Check(ExpressionError, "instance_norm"), channel_axis, data)
    channels = static_shape("instance_norm", "data", data, data.ndim)[at]
    return group_norm(data, gamma, beta, channels, at, axis, epsilon)


def _axis(check: Check, axis: int, data: Tensor) -> int:
    """Return the number of an axis from the front."""
    return check.whole("axis", axis, least=-data.ndim, most=data.ndim - 1) % data.ndim
