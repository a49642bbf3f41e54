"""Sorting and writing at indices of the data, by comparing all elements of an axis."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np

from autotune.errors import GraphError
from autotune.graph import Array, Constant, Operator, Value, apply, ops

# Every element is compared with all others of its axis.
MOST = 4096
# Where several rows are written to an axis all its places are compared with all their indices,
# unless a kernel stores the rows alone, which shows only later.
_MOST_COMPARED = 2**28


def first_along(
    x: Value, axis: int, count: int, greatest: bool, origin: str
) -> tuple[Value, Value]:
    """Return the ``count`` greatest or least elements along an axis in order, and their places.

    The rank of an element is how many come before it; the first of equals is before the others,
    and what is no number is greater than all numbers.

    Raises:
        GraphError: the axis is too long, or has not as many elements.
    """
    _check(x.shape[axis], origin)
    if not 1 <= count <= x.shape[axis]:
        raise GraphError(
            f"{origin}: k must be 1 to {x.shape[axis]}, as many as the axis has, got {count}"
        )
    last = x.type.ndim - 1
    order = (*[i for i in range(last + 1) if i != axis], axis)
    rows = x if axis == last else apply(ops.Transpose(order), x, origin=origin)
    places = _places(rows, count, greatest, origin)
    found = _taken(rows, places, origin), places
    if axis == last:
        return found
    back = tuple(order.index(i) for i in range(last + 1))
    values, where = (apply(ops.Transpose(back), each, origin=origin) for each in found)
    return values, where


def _check(extent: int, origin: str) -> None:
    if extent > MOST:
        raise GraphError(
            f"{origin}: axes of more than {MOST} elements are not compared, got {extent}"
        )


def _shaped(value: Value, shape: Sequence[int], origin: str) -> Value:
    return apply(ops.Reshape(tuple(shape)), value, origin=origin)


def _places(rows: Value, count: int, greatest: bool, origin: str) -> Value:
    """Return the indices of the first ``count`` elements of the last axis, in order."""
    run = partial(apply, origin=origin)
    *outer, extent = rows.shape
    own, ones = np.arange(extent, dtype="int32"), (1,) * len(outer)
    mine = _shaped(rows, (*outer, extent, 1), origin)
    other = _shaped(rows, (*outer, 1, extent), origin)
    earlier = Constant.of((own[None, :] < own[:, None]).reshape(*ones, extent, extent))
    before = run(ops.Greater() if greatest else ops.Less(), other, mine)
    equal = run(ops.Equal(), other, mine)
    if "float" in rows.dtype:
        before, equal = _with_nan(
            (before, equal), (mine, other) if greatest else (other, mine), origin
        )
    first = run(ops.LogicalOr(), before, run(ops.LogicalAnd(), equal, earlier))
    rank = run(ops.Sum((-1,)), run(ops.Cast("int32"), first))
    wanted = Constant.of(np.arange(count, dtype="int32").reshape(*ones, count, 1))
    hit = run(ops.Equal(), _shaped(rank, (*outer, 1, extent), origin), wanted)
    index = Constant.of(own.reshape(*ones, 1, extent))
    return run(ops.Sum((-1,)), run(ops.Multiply(), run(ops.Cast("int32"), hit), index))


def _with_nan(
    compared: tuple[Value, Value], pair: tuple[Value, Value], origin: str
) -> tuple[Value, Value]:
    """Return comparisons in which NaN is greater than numbers, and equal to itself.

    Else several elements would have one rank, and the sums of their places be no places.

    Args:
        compared: whether the second of a pair is greater than the first, and whether it is equal.
        pair: what is compared.
        origin: the place in the model.
    """
    run = partial(apply, origin=origin)
    first, second = (run(ops.IsNan(), each) for each in pair)
    greater = run(ops.LogicalAnd(), second, run(ops.LogicalNot(), first))
    both = run(ops.LogicalAnd(), first, second)
    return run(ops.LogicalOr(), compared[0], greater), run(ops.LogicalOr(), compared[1], both)


def _taken(rows: Value, places: Value, origin: str) -> Value:
    """Return the elements of the last axis at places."""
    *outer, extent = rows.shape
    number = int(np.prod(outer, dtype="int64"))
    if number > 1:
        begin = (np.arange(number, dtype="int32") * extent).reshape(*outer, 1)
        places = apply(ops.Add(), places, Constant.of(begin), origin=origin)
    flat = _shaped(rows, (number * extent,), origin)
    return apply(ops.Take(0), flat, places, origin=origin)


@dataclass(frozen=True)
class _Reduction:
    """How updates of one place are combined with each other and with what is there."""

    whole: Callable[[tuple[int, ...]], Operator]
    pair: Callable[[], Operator]
    neutral: Callable[[str], Array]


def _extreme(dtype: str, sign: int) -> Array:
    """Return the greatest number of a type, or the least one."""
    if dtype == "bool":
        return np.asarray(sign > 0)
    if "float" in dtype:
        return np.asarray(sign * np.inf)
    return np.asarray(np.iinfo(dtype).max if sign > 0 else np.iinfo(dtype).min)


_REDUCTIONS = {
    "add": _Reduction(ops.Sum, ops.Add, lambda dtype: np.asarray(0)),
    "mul": _Reduction(ops.Prod, ops.Multiply, lambda dtype: np.asarray(1)),
    "max": _Reduction(ops.Max, ops.Maximum, lambda dtype: _extreme(dtype, -1)),
    "min": _Reduction(ops.Min, ops.Minimum, lambda dtype: _extreme(dtype, 1)),
}
REDUCTIONS = ("none", *_REDUCTIONS)


def neutral(reduction: str, dtype: str) -> Array:
    """Return what changes nothing when it is combined with a number."""
    return _REDUCTIONS[reduction].neutral(dtype)


def written_along(
    x: Value,
    index: Value,
    updates: Value,
    axis: int,
    reduction: str,
    origin: str,
    axes: int = 1,
) -> Value:
    """Write updates along an axis to places from the front on, or combine them with what is there.

    Updates have the shape of the data but for the axis, and so has the index, whose other extents
    may be 1. With the reduction ``"none"`` the last of several updates of one place stays, and
    the index may count through several axes; others are those of `REDUCTIONS`.

    Raises:
        GraphError: the shapes are others, axes too long, or the reduction is unknown.
    """
    if reduction not in REDUCTIONS:
        raise GraphError(
            f"{origin}: reduction must be one of {', '.join(REDUCTIONS)}, got {reduction!r}"
        )
    count = index.shape[axis]
    shape = [*x.shape[:axis], count, *x.shape[axis + axes :]]
    fits = index.type.ndim == len(shape) and all(
        n in (1, m) for n, m in zip(index.shape, shape, strict=True)
    )
    if not fits or tuple(shape) != updates.shape:
        raise GraphError(
            f"{origin}: indices that are inputs, and updates that are combined, must have the "
            f"shape of the data, {x.type}, but for the axis {axis}; got indices {index.type} and "
            f"updates {updates.type}"
        )
    places = apply(ops.Cast("int32"), index, origin=origin)
    if reduction != "none":
        return _combined_along(x, places, updates, axis, _REDUCTIONS[reduction], origin)
    if count > 1:
        compared = math.prod(x.shape[axis : axis + axes]) * places.type.size
        if compared > _MOST_COMPARED:
            raise GraphError(
                f"{origin}: at most {_MOST_COMPARED} places times indices of what is written "
                f"are compared, got {compared}"
            )
        places = _last_of_equals(places, axis, origin)
    return apply(ops.Write(axis, axes), x, places, updates, origin=origin)


def _combined_along(
    x: Value, places: Value, updates: Value, axis: int, how: _Reduction, origin: str
) -> Value:
    """Combine updates with what is at their places along an axis."""
    run = partial(apply, origin=origin)
    for each in (x, places):
        _check(each.shape[axis], origin)
    # Axes: those before, the places, the updates, those behind.
    rank = x.type.ndim
    own = [x.shape[axis] if i == axis else 1 for i in range(rank + 1)]
    here = Constant.of(np.arange(x.shape[axis], dtype="int32").reshape(own))

    def apart(value: Value) -> Value:
        return _shaped(value, (*value.shape[:axis], 1, *value.shape[axis:]), origin)

    hit = run(ops.Equal(), apart(places), here)
    # Chosen, not multiplied: an update may be infinite.
    full = ops.BroadcastTo((*x.shape[: axis + 1], places.shape[axis], *x.shape[axis + 1 :]))
    nothing = Constant.of(how.neutral(x.dtype), dtype=x.dtype)
    part = run(ops.Where(), *(run(full, each) for each in (hit, apart(updates), nothing)))
    return run(how.pair(), x, run(how.whole((axis + 1,)), part))


def _last_of_equals(index: Value, axis: int, origin: str) -> Value:
    """Return an index along an axis with -1 in place of all but the last of equal ones."""
    run = partial(apply, origin=origin)
    count = index.shape[axis]
    _check(count, origin)
    turns = np.arange(count)
    ones = [1] * (index.type.ndim - axis - 1)
    later = Constant.of((turns[None, :] > turns[:, None]).reshape(count, count, *ones))
    # Axes: those before, each index, the others, those behind.
    before, behind = index.shape[:axis], index.shape[axis + 1 :]
    own = _shaped(index, (*before, count, 1, *behind), origin)
    other = _shaped(index, (*before, 1, count, *behind), origin)
    again = run(ops.LogicalAnd(), run(ops.Equal(), own, other), later)
    found = run(ops.Max((axis + 1,)), run(ops.Cast("int32"), again))
    nowhere = run(ops.BroadcastTo(index.shape), Constant.of(np.int32(-1)))
    return run(ops.Where(), run(ops.Cast("bool"), found), nowhere, index)
