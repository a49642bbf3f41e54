"""Sorting and writing at indices of the data, by comparing all elements of an axis."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from autotune.errors import GraphError
from autotune.graph import Array, Constant, Operator, Value, apply, made_at, ops

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
    with made_at(origin):
        return _first_along(x, axis, count, greatest)


def _first_along(x: Value, axis: int, count: int, greatest: bool) -> tuple[Value, Value]:
    last = x.type.ndim - 1
    order = (*[i for i in range(last + 1) if i != axis], axis)
    rows = x if axis == last else apply(ops.Transpose(order), x)
    places = _places(rows, count, greatest)
    found = _taken(rows, places), places
    if axis == last:
        return found
    back = tuple(order.index(i) for i in range(last + 1))
    values, where = (apply(ops.Transpose(back), each) for each in found)
    return values, where


def _check(extent: int, origin: str) -> None:
    if extent > MOST:
        raise GraphError(
            f"{origin}: axes of more than {MOST} elements are not compared, got {extent}"
        )


def _shaped(value: Value, shape: Sequence[int]) -> Value:
    return apply(ops.Reshape(tuple(shape)), value)


def _places(rows: Value, count: int, greatest: bool) -> Value:
    """Return the indices of the first ``count`` elements of the last axis, in order."""
    *outer, extent = rows.shape
    own, ones = np.arange(extent, dtype="int32"), (1,) * len(outer)
    mine = _shaped(rows, (*outer, extent, 1))
    other = _shaped(rows, (*outer, 1, extent))
    earlier = Constant.of((own[None, :] < own[:, None]).reshape(*ones, extent, extent))
    before = apply(ops.Greater() if greatest else ops.Less(), other, mine)
    equal = apply(ops.Equal(), other, mine)
    if "float" in rows.dtype:
        pair = (mine, other) if greatest else (other, mine)
        before, equal = _with_nan((before, equal), pair)
    first = apply(ops.LogicalOr(), before, apply(ops.LogicalAnd(), equal, earlier))
    rank = apply(ops.Sum((-1,)), first.astype("int32"))
    wanted = Constant.of(np.arange(count, dtype="int32").reshape(*ones, count, 1))
    hit = apply(ops.Equal(), _shaped(rank, (*outer, 1, extent)), wanted)
    index = Constant.of(own.reshape(*ones, 1, extent))
    return apply(ops.Sum((-1,)), hit.astype("int32") * index)


def _with_nan(compared: tuple[Value, Value], pair: tuple[Value, Value]) -> tuple[Value, Value]:
    """Return comparisons in which NaN is greater than numbers, and equal to itself.

    Else several elements would have one rank, and the sums of their places be no places.

    Args:
        compared: whether the second of a pair is greater than the first, and whether it is equal.
        pair: what is compared.
    """
    first, second = (apply(ops.IsNan(), each) for each in pair)
    greater = apply(ops.LogicalAnd(), second, apply(ops.LogicalNot(), first))
    both = apply(ops.LogicalAnd(), first, second)
    return apply(ops.LogicalOr(), compared[0], greater), apply(ops.LogicalOr(), compared[1], both)


def _taken(rows: Value, places: Value) -> Value:
    """Return the elements of the last axis at places."""
    *outer, extent = rows.shape
    number = int(np.prod(outer, dtype="int64"))
    if number > 1:
        begin = (np.arange(number, dtype="int32") * extent).reshape(*outer, 1)
        places = places + begin
    flat = _shaped(rows, (number * extent,))
    return apply(ops.Take(0), flat, places)


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
    if reduction != "none":
        _check(x.shape[axis], origin)
        _check(count, origin)
    elif count > 1:
        compared = math.prod(x.shape[axis : axis + axes]) * index.type.size
        if compared > _MOST_COMPARED:
            raise GraphError(
                f"{origin}: at most {_MOST_COMPARED} places times indices of what is written "
                f"are compared, got {compared}"
            )
        _check(count, origin)
    with made_at(origin):
        places = index.astype("int32")
        if reduction != "none":
            return _combined_along(x, places, updates, axis, _REDUCTIONS[reduction])
        if count > 1:
            places = _last_of_equals(places, axis)
        return apply(ops.Write(axis, axes), x, places, updates)


def _combined_along(x: Value, places: Value, updates: Value, axis: int, how: _Reduction) -> Value:
    """Combine updates with what is at their places along an axis."""
    # Axes: those before, the places, the updates, those behind.
    rank = x.type.ndim
    own = [x.shape[axis] if i == axis else 1 for i in range(rank + 1)]
    here = Constant.of(np.arange(x.shape[axis], dtype="int32").reshape(own))

    def apart(value: Value) -> Value:
        return _shaped(value, (*value.shape[:axis], 1, *value.shape[axis:]))

    hit = apply(ops.Equal(), apart(places), here)
    # Chosen, not multiplied: an update may be infinite.
    full = ops.BroadcastTo((*x.shape[: axis + 1], places.shape[axis], *x.shape[axis + 1 :]))
    nothing = Constant.of(how.neutral(x.dtype), dtype=x.dtype)
    part = apply(ops.Where(), *(apply(full, each) for each in (hit, apart(updates), nothing)))
    return apply(how.pair(), x, apply(how.whole((axis + 1,)), part))


def _last_of_equals(index: Value, axis: int) -> Value:
    """Return an index along an axis with -1 in place of all but the last of equal ones."""
    count = index.shape[axis]
    turns = np.arange(count)
    ones = [1] * (index.type.ndim - axis - 1)
    later = Constant.of((turns[None, :] > turns[:, None]).reshape(count, count, *ones))
    # Axes: those before, each index, the others, those behind.
    before, behind = index.shape[:axis], index.shape[axis + 1 :]
    own = _shaped(index, (*before, count, 1, *behind))
    other = _shaped(index, (*before, 1, count, *behind))
    again = apply(ops.LogicalAnd(), apply(ops.Equal(), own, other), later)
    found = apply(ops.Max((axis + 1,)), again.astype("int32"))
    nowhere = apply(ops.BroadcastTo(index.shape), Constant.of(np.int32(-1)))
    return apply(ops.Where(), found.astype("bool"), nowhere, index)
