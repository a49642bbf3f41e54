"""Reductions over axes: sum, minimum, maximum, product, mean, and the index of an extreme."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from autotune import te
from autotune.ir import Expr
from autotune.ir.dtype import is_float
from autotune.te.intrinsics import least, most
from autotune.te.tensor import Extent, Tensor
from autotune.topi import tag
from autotune.topi.arguments import asks, flag, takes, tensor
from autotune.topi.elemwise import elementwise
from autotune.topi.utils import axis_names, get_const_tuple, normal_axes

# The index of a value, and the value.
Indexed = tuple[Expr, Expr]
Axis = int | Sequence[int] | None
_taken = takes(data=tensor, keepdims=flag)


def _reduce(
    what: str,
    data: Tensor,
    axis: Axis,
    keepdims: bool,
    value: Callable[..., object],
    name: str,
    kind: str,
) -> Any:
    """Compute ``value(full indices, reduction axes)`` at every index that is left."""
    shape = get_const_tuple(data.shape)
    over = normal_axes(what, axis, data.ndim)
    axes = {a: te.reduce_axis((0, shape[a]), name=f"k{a}") for a in over}
    left = [a for a in range(data.ndim) if keepdims or a not in axes]

    def body(*i: Expr) -> object:
        at = dict(zip(left, i, strict=True))
        full = [axes[a].var if a in axes else at[a] for a in range(data.ndim)]
        return value(full, [axes[a] for a in over])

    extents = [1 if a in axes else shape[a] for a in left]
    return te.compute(extents, body, name, kind, varargs_names=axis_names(len(extents)))


def _reduction(
    what: str, data: Tensor, axis: Axis, keepdims: bool, reducer: Callable[..., object]
) -> Tensor:
    result: Tensor = _reduce(
        what,
        data,
        axis,
        keepdims,
        lambda full, axes: reducer(data(*full), axis=axes),
        f"{data.name}_red",
        tag.COMM_REDUCE,
    )
    return result


@_taken
def sum(data: Tensor, axis: Axis = None, keepdims: bool = False) -> Tensor:
    """Sum over axes; over all of them by default. Of bools it tells whether any is true."""
    if data.dtype == "bool":
        return any(data, axis, keepdims)
    return _reduction("sum", data, axis, keepdims, te.sum)


@_taken
def any(data: Tensor, axis: Axis = None, keepdims: bool = False) -> Tensor:
    """Tell whether any element over axes is true; over all of them by default."""
    either = te.comm_reducer(lambda x, y: te.any(x, y), lambda t: te.const(False, t), "any")
    return _reduction("any", _bools("any", data), axis, keepdims, either)


@_taken
def all(data: Tensor, axis: Axis = None, keepdims: bool = False) -> Tensor:
    """Tell whether all elements over axes are true; over all of them by default."""
    both = te.comm_reducer(lambda x, y: te.all(x, y), lambda t: te.const(True, t), "all")
    return _reduction("all", _bools("all", data), axis, keepdims, both)


def _bools(what: str, data: Tensor) -> Tensor:
    if data.dtype != "bool":
        asks(what).refuse("data", "a tensor of bools", data)
    return data


@_taken
def max(data: Tensor, axis: Axis = None, keepdims: bool = False) -> Tensor:
    """Find the maximum over axes; over all of them by default."""
    return _reduction("max", data, axis, keepdims, te.max)


@_taken
def min(data: Tensor, axis: Axis = None, keepdims: bool = False) -> Tensor:
    """Find the minimum over axes; over all of them by default."""
    return _reduction("min", data, axis, keepdims, te.min)


@_taken
def prod(data: Tensor, axis: Axis = None, keepdims: bool = False) -> Tensor:
    """Multiply over axes; over all of them by default."""
    times = te.comm_reducer(lambda x, y: x * y, lambda t: te.const(1, t), name="prod")
    return _reduction("prod", data, axis, keepdims, times)


@_taken
def mean(data: Tensor, axis: Axis = None, keepdims: bool = False) -> Tensor:
    """Average over axes; over all of them by default."""
    count: Extent = 1
    for a in normal_axes("mean", axis, data.ndim):
        count *= get_const_tuple(data.shape)[a]
    total = sum(data, axis, keepdims)
    if isinstance(count, Expr):
        number = te.cast(count, data.dtype)
        return elementwise(total, lambda v: v / number)
    return elementwise(total, lambda v: v / te.const(count, data.dtype))


def _index_of(
    what: str,
    data: Tensor,
    axis: Axis,
    keepdims: bool,
    better: Callable[[Expr, Expr], Expr],
    worst: Callable[[str], Expr],
) -> Tensor:
    """Reduce pairs of index and value; of equal values the first index is kept.

    As in numpy a NaN goes before all numbers, so what comes out is always an index of the data.
    """
    is_real = is_float(data.dtype)

    def combine(x: Indexed, y: Indexed) -> Indexed:
        first = te.any(better(x[1], y[1]), te.all(x[1] == y[1], x[0] <= y[0]))
        if is_real:  # only a NaN differs from itself
            first = te.any(first, te.all(x[1] != x[1], te.any(y[1] == y[1], x[0] <= y[0])))
        return te.Select(first, x[0], y[0]), te.Select(first, x[1], y[1])

    def identity(index: str, value: str) -> Indexed:
        return te.max_value(index), worst(value)

    reducer = te.comm_reducer(combine, identity, name="argreduce")
    shape = get_const_tuple(data.shape)
    over = normal_axes(what, axis, data.ndim)

    def value(full: list[Expr], axes: list[Expr]) -> object:
        index: int | Expr = 0
        for a in over:
            index = index * shape[a] + full[a]
        return reducer((index, data(*full)), axis=axes)

    name = f"{data.name}_red_temp"
    both = _reduce(what, data, axis, keepdims, value, name, tag.COMM_REDUCE_IDX)
    result: Tensor = te.compute(
        both[0].shape,
        lambda *i: both[0](*i),
        f"{data.name}_red",
        tag.COMM_REDUCE_IDX,
        varargs_names=axis_names(both[0].ndim),
    )
    return result


@_taken
def argmax(data: Tensor, axis: Axis = None, keepdims: bool = False) -> Tensor:
    """Find the index (int32, within the reduced axes, row-major) of the first maximum."""
    return _index_of("argmax", data, axis, keepdims, lambda a, b: a > b, least)


@_taken
def argmin(data: Tensor, axis: Axis = None, keepdims: bool = False) -> Tensor:
    """Find the index (int32, within the reduced axes, row-major) of the first minimum."""
    return _index_of("argmin", data, axis, keepdims, lambda a, b: a < b, most)
