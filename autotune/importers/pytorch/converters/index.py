"""Operators that read where whole numbers say."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from autotune.graph import Array, Constant, Value, ops
from autotune.importers.pytorch.call import Call, Operand, converts
from autotune.importers.ranks import written_along


@converts("embedding")
def embedding(call: Call, weight: Value, indices: Value, *_: object) -> Value:
    """Take rows of a table."""
    call.within(indices, weight.shape[0])
    return _taken(call, weight, 0, indices)


# Every bag is compared with every index.
_MOST_IN_BAGS = 2**20
# Modes of bags; the other one, 0, is their sum.
_AVERAGE, _LARGEST = 1, 2


@converts("_embedding_bag", "_embedding_bag_forward_only")
def embedding_bag(
    call: Call, weight: Value, indices: Value, offsets: Value, scale_grad: bool = False,
    mode: int = 0, sparse: bool = False, shares: Value | None = None, has_end: bool = False,
    padding: int = -1,
) -> list[Value | None]:  # fmt: skip
    """Add up, average, or take the largest of, rows of a table for each bag of indices."""
    bags, width = call.type.shape
    count = indices.type.size
    call.within(indices, weight.shape[0])
    call.within(call.slice(offsets, 0, 0, 1), 1)  # every index is in a bag
    call.within(offsets, count + 1)
    rows = _taken(call, weight, 0, indices)
    if shares is not None:
        rows = call.apply(ops.Multiply(), rows, call.reshape(shares, (*shares.shape, 1)))
    size = _size_of_all(offsets, bags, count, has_end) if padding < 0 else 0
    if size:
        apart = call.reshape(call.slice(rows, 0, 0, bags * size), (bags, size, width))
        return [call.apply((ops.Sum, ops.Mean, ops.Max)[mode]((1,)), apart), None, None, None]
    if count * bags > _MOST_IN_BAGS:
        call.refuse(
            "offsets", "those of bags of one size, which are known, or of at most "
            f"{_MOST_IN_BAGS} bags times indices", f"{bags} times {count}"
        )  # fmt: skip
    inside = _inside(call, offsets, bags, count, has_end)
    if padding >= 0:
        used = call.binary(ops.NotEqual, indices, padding, indices.dtype)
        inside = call.apply(ops.LogicalAnd(), inside, call.reshape(used, (1, count)))
    # Chosen, not multiplied: a row of another bag may be infinite.
    whole = (bags, count, width)
    own = call.expand(call.reshape(inside, (bags, count, 1)), whole)
    each = call.expand(call.reshape(rows, (1, count, width)), whole)
    other = call.constant(-math.inf if mode == _LARGEST else 0, rows.dtype)
    chosen = call.apply(ops.Where(), own, each, call.expand(other, whole))
    result = call.apply(ops.Max((1,)) if mode == _LARGEST else ops.Sum((1,)), chosen)
    if mode in (_AVERAGE, _LARGEST):
        sizes = call.apply(ops.Sum((1,), True), call.cast(inside, "int32"))
        result = _of_sizes(call, result, sizes, mode)
    return [result, None, None, None]


def _size_of_all(offsets: Value, bags: int, count: int, has_end: bool) -> int:
    """Return the size of all bags if they are known to have one; otherwise 0."""
    size = count // bags
    even = np.arange(bags + 1) * size
    if not isinstance(offsets, Constant) or (offsets.array != even[: offsets.shape[0]]).any():
        return 0
    return size if has_end or bags * size == count else 0


def _inside(call: Call, offsets: Value, bags: int, count: int, has_end: bool) -> Value:
    """Return which indices are in each bag: [bags, indices]."""
    begin = call.cast(call.slice(offsets, 0, 0, bags), "int32")
    after = [call.slice(offsets, 0, 1, offsets.shape[0])] if offsets.shape[0] > 1 else []
    if not has_end:
        after.append(call.constant([count], offsets.dtype))
    end = call.cast(call.concatenate(after, 0), "int32")
    place = call.constant(np.arange(count)[None], "int32")
    first, last = (call.reshape(edge, (bags, 1)) for edge in (begin, end))
    return call.apply(
        ops.LogicalAnd(), call.apply(ops.GreaterEqual(), place, first),
        call.apply(ops.Less(), place, last),
    )  # fmt: skip


def _of_sizes(call: Call, result: Value, sizes: Value, mode: int) -> Value:
    """Return averages of sums, or the largest; 0 for bags without indices."""
    if mode == _AVERAGE:
        some = call.apply(ops.Maximum(), sizes, call.constant(1, "int32"))
        return call.apply(ops.Divide(), result, call.cast(some, result.dtype))
    full = call.expand(call.apply(ops.Greater(), sizes, call.constant(0, "int32")), result.shape)
    nothing = call.expand(call.constant(0, result.dtype), result.shape)
    return call.apply(ops.Where(), full, result, nothing)


@converts("index_select")
def index_select(call: Call, x: Value, dim: int, index: Value) -> Value:
    """Take slices along an axis."""
    x = x if x.shape else call.reshape(x, (1,))
    call.within(index, x.shape[dim])
    return call.reshape(_taken(call, x, dim % x.type.ndim, index), call.type.shape)


def _taken(call: Call, x: Value, axis: int, indices: Value) -> Value:
    """Take slices at places counted from the front or from the end."""
    extent = x.shape[axis]
    if isinstance(indices, Constant):
        return call.take(x, axis, _counted(indices.array, extent))
    return call.apply(ops.Take(axis, wrap=True), x, indices)


def _counted(places: Array, extent: int) -> Array:
    """Return indices counted from the front."""
    wide = places.astype("int64")
    return np.where(wide < 0, wide + extent, wide)


@converts("index.Tensor", "_unsafe_index.Tensor")
def index(call: Call, x: Value, indices: Sequence[Value | None]) -> Value:
    """Take elements at the indices of several axes, which broadcast."""
    given = [(axis, each) for axis, each in enumerate(indices) if each is not None]
    if any(each.dtype in ("bool", "uint8") for _, each in given):
        call.refuse("indices", "whole numbers: the shape must not depend on values", "a mask")
    axes = [axis for axis, _ in given]
    together = axes == list(range(axes[0], axes[0] + len(axes)))
    first = axes[0] if together else 0
    rest = [axis for axis in range(x.type.ndim) if axis not in axes]
    moved = call.transpose(x, [*rest[:first], *axes, *rest[first:]])
    extents = [x.shape[axis] for axis in axes]
    for (_, each), extent in zip(given, extents, strict=True):
        call.within(each, extent, from_end=True)
    flat = call.reshape(
        moved, (*moved.shape[:first], math.prod(extents), *moved.shape[first + len(axes) :])
    )
    places = _joined(call, [each for _, each in given], extents)
    return call.reshape(_taken(call, flat, first, places), call.type.shape)


def _joined(call: Call, indices: Sequence[Value], extents: Sequence[int]) -> Value:
    """Return indices of several axes as those of one."""
    shape = np.broadcast_shapes(*[each.shape for each in indices])
    numbers = [each.array for each in indices if isinstance(each, Constant)]
    if len(numbers) == len(indices):
        total = np.zeros(shape, "int64")
        for places, extent in zip(numbers, extents, strict=True):
            total = total * extent + _counted(places, extent)
        return call.constant(total)
    result: Value | None = None
    for each, extent in zip(indices, extents, strict=True):
        front = _from_the_front(call, each, extent) if len(indices) > 1 else each
        if result is not None:
            larger = call.binary(ops.Multiply, result, extent, "int64")
            front = call.binary(ops.Add, larger, front, "int64")
        result = front
    assert result is not None
    return result


def _from_the_front(call: Call, places: Value, extent: int) -> Value:
    """Return indices, those from the end counted from the front."""
    if isinstance(places, Constant):
        return call.constant(_counted(places.array, extent))
    wide = call.cast(places, "int64")
    negative = call.binary(ops.Less, wide, 0, "int64")
    more = call.binary(ops.Multiply, call.cast(negative, "int64"), extent, "int64")
    return call.apply(ops.Add(), wide, more)


@converts("gather")
def gather(call: Call, x: Value, dim: int, index: Value, sparse_grad: bool = False) -> Value:
    """Take an element of each line along an axis."""
    at = dim % x.type.ndim
    rank, shape = x.type.ndim, index.shape
    call.within(index, x.shape[at])
    strides = [math.prod(x.shape[axis + 1 :]) for axis in range(rank)]
    here = np.zeros(shape, "int64")
    for axis in range(rank):
        if axis != at:
            line = [shape[axis] if i == axis else 1 for i in range(rank)]
            here = here + (np.arange(shape[axis]) * strides[axis]).reshape(line)
    flat = call.reshape(x, (x.type.size,))
    if isinstance(index, Constant):
        return call.take(flat, 0, here + _counted(index.array, x.shape[at]) * strides[at])
    far = call.binary(ops.Multiply, call.cast(index, "int64"), strides[at], "int64")
    places = call.apply(ops.Add(), far, call.constant(here))
    return call.apply(ops.Take(0), flat, places)


def written_in_steps(
    call: Call, x: Value, indices: Sequence[Value | None], values: Value, accumulate: bool = False
) -> Value | None:
    """Write to places of one axis that are known and lie in equal steps; else return None."""
    given = [(axis, each) for axis, each in enumerate(indices) if each is not None]
    if accumulate or len(given) > 1:
        return None
    ((axis, places),) = given
    extent = x.shape[axis]
    if not isinstance(places, Constant) or places.type.ndim != 1 or "int" not in places.dtype:
        return None
    where = _counted(places.array, extent)
    steps = np.diff(where)
    inside = where[0] >= 0 and where[-1] < extent
    if not inside or (steps < 1).any() or (steps != steps[:1]).any() or places.dtype == "uint8":
        return None
    wide = call.expand(
        call.cast(values, x.dtype), (*x.shape[:axis], len(where), *x.shape[axis + 1 :])
    )
    return call.write_slice(x, wide, axis, int(where[0]), int(steps[0]) if len(steps) else 1)


@converts("index_add", "index_copy")
def written_rows(
    call: Call, x: Value, dim: int, index: Value, source: Value, alpha: Operand = 1
) -> Value:
    """Write rows to places of an axis that are counted from its front, or add them."""
    adds = "index_add" in call.name
    axis, rank = dim % max(x.type.ndim, 1), max(x.type.ndim, 1)
    whole = call.reshape(x, x.shape or (1,))
    call.within(index, whole.shape[axis])
    places = call.reshape(index, (index.type.size,))
    rows = call.reshape(source, (*whole.shape[:axis], index.type.size, *whole.shape[axis + 1 :]))
    if adds and alpha != 1:
        rows = call.binary(ops.Multiply, rows, alpha, x.dtype)
    indices = [*[None] * axis, places]
    made = None if adds else written_in_steps(call, whole, indices, rows)
    if made is None:
        line = (*[1] * axis, index.type.size, *[1] * (rank - axis - 1))
        how = "add" if adds else "none"
        made = written_along(whole, call.reshape(places, line), rows, axis, how, call.origin)
    return call.reshape(made, x.shape)


def written(
    call: Call, x: Value, indices: Sequence[Value | None], values: Value, accumulate: bool = False
) -> Value:
    """Write values where indices of neighbouring axes say, or add them; one where a mask is.

    Of several values for one place the last one stays.
    """
    given = [(axis, each) for axis, each in enumerate(indices) if each is not None]
    axes = [axis for axis, _ in given]
    if any(each.dtype in ("bool", "uint8") for _, each in given):
        return _masked(call, x, indices, None if accumulate else values)
    first = axes[0]
    if axes != list(range(first, first + len(axes))):
        call.refuse("indices", "of neighbouring axes", axes)
    extents = [x.shape[axis] for axis in axes]
    for (_, each), extent in zip(given, extents, strict=True):
        call.within(each, extent, from_end=True)
    shape = np.broadcast_shapes(*[each.shape for _, each in given])
    before, behind = x.shape[:first], x.shape[first + len(axes) :]
    count = math.prod(shape)
    wide = call.expand(call.cast(values, x.dtype), (*before, *shape, *behind))
    places = call.expand(_joined(call, [each for _, each in given], extents), shape)
    places = _from_the_front(call, places, math.prod(extents))
    index = call.reshape(places, (*[1] * first, count, *[1] * len(behind)))
    updates = call.reshape(wide, (*before, count, *behind))
    if not accumulate:
        return written_along(x, index, updates, first, "none", call.origin, len(axes))
    # All axes of indices are one.
    flat = call.reshape(x, (*before, math.prod(extents), *behind))
    result = written_along(flat, index, updates, first, "add", call.origin)
    return call.reshape(result, x.shape)


def _masked(call: Call, x: Value, indices: Sequence[Value | None], number: Value | None) -> Value:
    """Write one number where a mask of the first axes is."""
    (mask, *others) = indices
    if number is None or number.type.size > 1 or mask is None or others:
        call.refuse(
            "indices", "whole numbers, or one mask of the first axes and one number", "masks"
        )
    behind = (1,) * (x.type.ndim - mask.type.ndim)
    seen = call.expand(call.reshape(mask, (*mask.shape, *behind)), x.shape)
    everywhere = call.expand(call.reshape(call.cast(number, x.dtype), ()), x.shape)
    return call.apply(ops.Where(), call.cast(seen, "bool"), everywhere, x)
