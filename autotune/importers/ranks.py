"""Sorting and writing at indices of the data, by comparing all elements of an axis."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

import numpy as np

from autotune.errors import GraphError
from autotune.graph import Constant, Value, apply, ops

# Every element is compared with all others of its axis.
MOST = 4096


def first_along(
    x: Value, axis: int, count: int, greatest: bool, origin: str
) -> tuple[Value, Value]:
    """Return the ``count`` greatest or least elements along an axis in order, and their places.

    The rank of an element is how many come before it; the first of equals is before the others,
    and what is no number is greater than all numbers.

    Raises:
        GraphError: the axis is too long, or has not as many elements.
    """
    _check(x, axis, origin)
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


def _check(x: Value, axis: int, origin: str) -> None:
    if x.shape[axis] > MOST:
        raise GraphError(
            f"{origin}: axes of more than {MOST} elements are not compared, got {x.shape[axis]}"
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


def written_along(
    x: Value, index: Value, updates: Value, axis: int, adds: bool, origin: str
) -> Value:
    """Write updates along an axis to places from the front on, or add them there.

    Index and updates have the shape of the data but for the axis; the last of several updates of
    one place stays.

    Raises:
        GraphError: the shapes are others, or axes too long.
    """
    run = partial(apply, origin=origin)
    shape, count = list(x.shape), index.shape[axis]
    shape[axis] = count
    if tuple(shape) != index.shape or index.shape != updates.shape:
        raise GraphError(
            f"{origin}: indices that depend on the data must have the shape of it but for the "
            f"axis {axis}, {x.type}, got {index.type} for {updates.type}"
        )
    for each in (x, index):
        _check(each, axis, origin)
    # Axes: those before, the places, the updates, those behind.
    around = x.shape[:axis], x.shape[axis + 1 :]
    rank = x.type.ndim
    own = [x.shape[axis] if i == axis else 1 for i in range(rank + 1)]
    places = Constant.of(np.arange(x.shape[axis], dtype="int32").reshape(own))
    wide = (*around[0], 1, count, *around[1])
    hit = run(ops.Equal(), _shaped(run(ops.Cast("int32"), index), wide, origin), places)
    update = _shaped(updates, wide, origin)
    if adds:
        # Chosen, not multiplied: an update may be infinite.
        full = ops.BroadcastTo((*around[0], x.shape[axis], count, *around[1]))
        nothing = Constant.of(np.zeros((), "int32"))
        choices = (hit, update, run(ops.Cast(x.dtype), nothing))
        part = run(ops.Where(), *(run(full, each) for each in choices))
        return run(ops.Add(), x, run(ops.Sum((axis + 1,)), part))
    turns = [count if i == axis + 1 else 1 for i in range(rank + 1)]
    turn = Constant.of(np.arange(1, count + 1, dtype="int32").reshape(turns))
    last = run(ops.Max((axis + 1,)), run(ops.Multiply(), run(ops.Cast("int32"), hit), turn))
    joined = run(ops.Concatenate(axis), x, updates)
    here = np.arange(x.shape[axis], dtype="int32").reshape(
        own[:axis] + own[axis : axis + 1] + own[axis + 2 :]
    )
    none = run(ops.Equal(), last, Constant.of(np.int32(0)))
    behind = run(ops.Add(), last, Constant.of(np.int32(x.shape[axis] - 1)))
    at = run(ops.Where(), none, run(ops.BroadcastTo(x.shape), Constant.of(here)), behind)
    return _along(joined, at, axis, origin)


def _along(x: Value, at: Value, axis: int, origin: str) -> Value:
    """Return for each place the element of its line along an axis."""
    strides = [int(np.prod(x.shape[i + 1 :], dtype="int64")) for i in range(x.type.ndim)]
    base = np.zeros((1,) * x.type.ndim, "int64")
    for i, stride in enumerate(strides):
        if i != axis:
            base = base + (np.arange(x.shape[i]) * stride).reshape(
                [-1 if i == j else 1 for j in range(x.type.ndim)]
            )
    far = apply(ops.Multiply(), at, Constant.of(np.int32(strides[axis])), origin=origin)
    places = apply(ops.Add(), far, Constant.of(base.astype("int32")), origin=origin)
    return apply(ops.Take(0), _shaped(x, (x.type.size,), origin), places, origin=origin)
