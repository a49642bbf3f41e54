"""TVM's sorting operators, by counting: of each element, how many go before it.

That is `n` comparisons for each of `n` elements, all independent, so that they fill a device and
have a definition like other operators. It suits scores and classes, not axes of 100,000 elements.
"""

from __future__ import annotations

from autotune import te
from autotune.ir import Expr, as_expr, is_float
from autotune.te.tensor import Tensor
from autotune.topi.arguments import asks, takes, tensor
from autotune.topi.elemwise import cast
from autotune.topi.utils import normal_axis, static_shape

__all__ = ["argsort", "sort", "topk"]


@takes(data=tensor)
def argsort(
    data: Tensor,
    valid_count: object = None,
    axis: int = -1,
    is_ascend: bool = True,
    dtype: str = "float32",
) -> Tensor:
    """Return the indices that sort along an axis; of equal elements the first goes first.

    Args:
        data: what to sort.
        valid_count: only None is known: all elements count.
        axis: along which.
        is_ascend: whether the least goes first; NaN goes last in any case.
        dtype: of the indices.
    """
    if valid_count is not None:
        asks("argsort").refuse("valid_count", "None: all elements count", valid_count)
    return cast(_order("argsort", data, axis, is_ascend, None), dtype)


@takes(data=tensor)
def sort(data: Tensor, axis: int = -1, is_ascend: bool = True) -> Tensor:
    """Sort along an axis; see `argsort`."""
    return _taken(data, _order("sort", data, axis, is_ascend, None), axis)


@takes(data=tensor)
def topk(
    data: Tensor,
    k: int = 1,
    axis: int = -1,
    ret_type: str = "both",
    is_ascend: bool = False,
    dtype: str = "int64",
) -> Tensor | list[Tensor]:
    """Return the first elements of a sorted axis, and their indices; see `argsort`.

    Args:
        data: what to sort.
        k: how many; all if it is less than 1.
        axis: along which.
        ret_type: ``"both"``, ``"values"`` or ``"indices"``.
        is_ascend: whether the least are returned, not the greatest.
        dtype: of the indices.
    """
    check = asks("topk")
    check.one_of("ret_type", ret_type, ("both", "values", "indices"))
    extent = static_shape("topk", "data", data, data.ndim)[normal_axis("topk", axis, data.ndim)]
    count = check.whole("k", k)
    order = _order("topk", data, axis, is_ascend, min(count, extent) if count > 0 else None)
    values, indices = _taken(data, order, axis), cast(order, dtype)
    if ret_type == "both":
        return [values, indices]
    return values if ret_type == "values" else indices


def _order(what: str, data: Tensor, axis: int, is_ascend: bool, first: int | None) -> Tensor:
    """Return the indices of the sorted elements of an axis, of the first or of all."""
    at = normal_axis(what, axis, data.ndim)
    shape = static_shape(what, "data", data, data.ndim)
    extent = shape[at]
    other = te.reduce_axis((0, extent), name="other")

    def rank(*i: Expr) -> Expr:
        before = _goes_before(data, (*i[:at], other.var, *i[at + 1 :]), i, at, is_ascend)
        return te.sum(te.Select(before, te.const(1, "int32"), te.const(0, "int32")), axis=other)

    ranks = te.compute(shape, rank, name="rank")
    element = te.reduce_axis((0, extent), name="element")

    def index(*i: Expr) -> Expr:
        here = ranks(*i[:at], element, *i[at + 1 :]) == i[at]
        return te.sum(te.Select(here, as_expr(element), te.const(0, "int32")), axis=element)

    kept = (*shape[:at], extent if first is None else first, *shape[at + 1 :])
    found: Tensor = te.compute(kept, index, name="order")
    return found


def _goes_before(
    data: Tensor, one: tuple[Expr, ...], other: tuple[Expr, ...], at: int, is_ascend: bool
) -> Expr:
    """Return whether an element comes before another one of its axis."""
    a, b = data(*one), data(*other)
    less = a < b if is_ascend else a > b
    same = te.all(a == b, one[at] < other[at])
    if not is_float(data.dtype):
        return te.any(less, same)
    # Only a NaN differs from itself.
    nans = te.all(b != b, te.any(a == a, one[at] < other[at]))
    return te.any(less, same, nans)


def _taken(data: Tensor, order: Tensor, axis: int) -> Tensor:
    at = axis % data.ndim

    def value(*i: Expr) -> Expr:
        found: Expr = data(*i[:at], order(*i), *i[at + 1 :])
        return found

    found: Tensor = te.compute(order.shape, value, name="sorted")
    return found
