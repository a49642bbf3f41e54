"""Softmax and its logarithm."""

from __future__ import annotations

from collections.abc import Callable

from autotune import te
from autotune.ir import Expr
from autotune.te.tensor import Tensor
from autotune.topi.arguments import takes, tensor
from autotune.topi.types import Indices
from autotune.topi.utils import get_const_tuple, normal_axis


def _over(
    x: Tensor, axis: int, name: str, value: Callable[..., Expr], reducer: Callable[..., Expr]
) -> Tensor:
    """Reduce ``value`` at every index over one axis."""
    shape = get_const_tuple(x.shape)
    k = te.reduce_axis((0, shape[axis]), name="k")

    def body(*i: Expr) -> Expr:
        return reducer(value(i[:axis], k.var, i[axis:]), axis=k)

    result: Tensor = te.compute((*shape[:axis], *shape[axis + 1 :]), body, name=name)
    return result


def _without(i: Indices, at: int) -> Indices:
    """Return indices but that of one axis."""
    return (*i[:at], *i[at + 1 :])


@takes(x=tensor)
def softmax(x: Tensor, axis: int = -1) -> Tensor:
    """Divide the powers of e by their sum along an axis; the maximum is subtracted first."""
    at = normal_axis("softmax", axis, x.ndim)

    highest = _over(x, at, "T_softmax_maxelem", lambda a, k, b: x(*a, k, *b), te.max)
    powers: Tensor = te.compute(
        x.shape, lambda *i: te.exp(x(*i) - highest(*_without(i, at))), name="T_softmax_exp"
    )
    total = _over(x, at, "T_softmax_expsum", lambda a, k, b: powers(*a, k, *b), te.sum)
    result: Tensor = te.compute(
        x.shape,
        lambda *i: powers(*i) / total(*_without(i, at)),
        name="T_softmax_norm",
        attrs={"axis": at},
        tag="softmax_output",
    )
    return result


@takes(x=tensor)
def log_softmax(x: Tensor, axis: int = -1) -> Tensor:
    """Take the logarithm of `softmax`, computed without its quotient."""
    at = normal_axis("log_softmax", axis, x.ndim)

    highest = _over(x, at, "T_softmax_maxelem", lambda a, k, b: x(*a, k, *b), te.max)

    def power(a: Indices, k: Expr, b: Indices) -> Expr:
        return te.exp(x(*a, k, *b) - highest(*a, *b))

    total = _over(x, at, "T_softmax_expsum", power, te.sum)
    result: Tensor = te.compute(
        x.shape,
        lambda *i: x(*i) - highest(*_without(i, at)) - te.log(total(*_without(i, at))),
        attrs={"axis": at},
        tag="log_softmax_output",
    )
    return result
