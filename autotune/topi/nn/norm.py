"""Normalisation over axes of one example."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from autotune import te
from autotune.errors import ExpressionError
from autotune.ir import Expr
from autotune.te.tensor import Tensor
from autotune.topi import tag
from autotune.topi.arguments import asks, number, optional, takes, tensor
from autotune.topi.types import Indices
from autotune.topi.utils import get_const_tuple, normal_axes

Axes = int | Sequence[int]


class _Normalised:
    """Data, and the axes over which it is normalised.

    Sums of 16-bit floats are computed as ``float32``.
    """

    def __init__(self, what: str, data: Tensor, axis: Axes, *scales: tuple[str, Tensor | None]):
        self.axes = sorted(normal_axes(what, axis, data.ndim))
        self.data = data
        self.shape = get_const_tuple(data.shape)
        if not data.dtype.startswith(("float", "bfloat")):
            raise ExpressionError(f"{what}: data must be of floats, got {data.dtype}")
        self.dtype = "float64" if data.dtype == "float64" else "float32"
        over = tuple(self.shape[k] for k in self.axes)
        for name, scale in scales:
            if scale is not None and get_const_tuple(scale.shape) != over:
                asks(what).refuse(name, f"of shape {over}, the axes {self.axes} of data", scale)
        self.count = 1
        for n in over:
            self.count *= n

    def __call__(self, *i: Expr) -> Expr:
        """Return an element of the data, wide enough for sums."""
        element: Expr = self.data(*i)
        return element if self.data.dtype == self.dtype else element.astype(self.dtype)

    def outer(self, i: Indices) -> Indices:
        """Return the indices of the axes that are not normalised."""
        return tuple(x for k, x in enumerate(i) if k not in self.axes)

    def mean(self, name: str, value: Callable[..., object]) -> Tensor:
        """Return the mean of ``value``, a function of all indices, over the axes."""
        loops = {k: te.reduce_axis((0, self.shape[k]), name=f"k{k}") for k in self.axes}
        kept = [n for k, n in enumerate(self.shape) if k not in self.axes]

        def body(*i: Expr) -> Expr:
            rest = iter(i)
            at = [loops[k].var if k in loops else next(rest) for k in range(len(self.shape))]
            return te.sum(value(*at), axis=list(loops.values()))

        total = te.compute(kept, body, name=f"{name}_sum", tag=tag.COMM_REDUCE)
        result: Tensor = te.compute(
            kept, lambda *i: total(*i) / float(self.count), name=name, tag=tag.INJECTIVE
        )
        return result

    def scaled(self, value: Expr, i: Indices, gain: Tensor | None, shift: Tensor | None) -> Expr:
        """Return a normalised element times its gain plus its shift, in the dtype of the data."""
        at = [i[k] for k in self.axes]
        if gain is not None:
            value = value * gain(*at).astype(self.dtype)
        if shift is not None:
            value = value + shift(*at).astype(self.dtype)
        return value if self.data.dtype == self.dtype else value.astype(self.data.dtype)


@takes(data=tensor, gamma=optional(tensor), beta=optional(tensor), epsilon=number)
def layer_norm(
    data: Tensor,
    gamma: Tensor | None,
    beta: Tensor | None,
    axis: Axes,
    epsilon: float = 1e-5,
) -> Tensor:
    """Subtract the mean over some axes, divide by the standard deviation, scale and shift.

    Args:
        data: a tensor of floats.
        gamma: factors, of the shape of the axes; None for 1.
        beta: summands, of the shape of the axes; None for 0.
        axis: one axis or several.
        epsilon: is added to the variance.
    """
    x = _Normalised("layer_norm", data, axis, ("gamma", gamma), ("beta", beta))
    mean = x.mean("T_layer_norm_mean", x)

    def squared(*i: Expr) -> Expr:
        centred = x(*i) - mean(*x.outer(i))
        return centred * centred

    variance = x.mean("T_layer_norm_variance", squared)

    def body(*i: Expr) -> Expr:
        outer = x.outer(i)
        value = (x(*i) - mean(*outer)) * te.rsqrt(variance(*outer) + epsilon)
        return x.scaled(value, i, gamma, beta)

    result: Tensor = te.compute(x.shape, body, name="T_layer_norm", tag=tag.INJECTIVE)
    return result


@takes(data=tensor, weight=optional(tensor), epsilon=number)
def rms_norm(data: Tensor, weight: Tensor | None, axis: Axes, epsilon: float = 1e-5) -> Tensor:
    """Divide by the root of the mean square over some axes, and scale.

    Args:
        data: a tensor of floats.
        weight: factors, of the shape of the axes; None for 1.
        axis: one axis or several.
        epsilon: is added to the mean square.
    """
    x = _Normalised("rms_norm", data, axis, ("weight", weight))
    square = x.mean("T_rms_norm_mean", lambda *i: x(*i) * x(*i))

    def body(*i: Expr) -> Expr:
        return x.scaled(x(*i) * te.rsqrt(square(*x.outer(i)) + epsilon), i, weight, None)

    result: Tensor = te.compute(x.shape, body, name="T_rms_norm", tag=tag.INJECTIVE)
    return result
