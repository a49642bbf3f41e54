"""Operators of relay that rearrange elements, made of those of networks."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import pairwise

import numpy as np

from autotune.errors import GraphError
from autotune.graph import Constant, Node, Value, apply, ops
from autotune.te.location import user_line
from autotune.tvm.relay.arguments import Numbers, check_values, whole_numbers
from autotune.tvm.relay.function import Tuple
from autotune.utils.check import Check, is_whole


def reshape(data: Value, newshape: Numbers, allowzero: bool = False) -> Value:
    """Give the elements another shape.

    In it 0 keeps an extent, one -1 is inferred, -2 keeps all extents that are left, -3 joins two,
    and -4 splits one into the two numbers after it, of which one may be -1.
    """
    check_values("reshape", data=data)
    wanted = whole_numbers("reshape", "newshape", newshape)
    if allowzero and 0 in wanted:
        Check(GraphError, "reshape").refuse("newshape", "extents of at least 1", newshape)
    if min(wanted, default=0) < -1:
        wanted = _plain_shape(data.shape, wanted)
    return apply(ops.Reshape(wanted), data)


def _plain_shape(old: tuple[int, ...], wanted: tuple[int, ...]) -> tuple[int, ...]:
    """Return a shape without -2, -3 and -4."""
    check = Check(GraphError, "reshape")
    new: list[int] = []
    left, given = list(old), list(wanted)

    def first() -> int:
        if not left:
            check.refuse("newshape", f"a way to write the extents {old}", wanted)
        return left.pop(0)

    while given:
        code = given.pop(0)
        if code == -2:
            new += left
            left.clear()
        elif code == -3:
            new.append(first() * first())
        elif code == -4:
            parts, given = given[:2], given[2:]
            new += _halves(first(), parts, wanted)
        elif code in (0, -1) or code > 0:
            extent = first()
            new.append(extent if code == 0 else code)
        else:
            check.refuse("newshape", "extents, or 0 to -4", wanted)
    return tuple(new)


def _halves(extent: int, parts: list[int], wanted: tuple[int, ...]) -> list[int]:
    """Return the two extents that one is split into."""
    known = math.prod(n for n in parts if n != -1)
    if len(parts) == 2 and parts.count(-1) < 2 and known > 0 and not extent % known:
        found = [extent // known if n == -1 else n for n in parts]
        if math.prod(found) == extent:
            return found
    expected = f"after -4 two numbers whose product is {extent}, of which one may be -1"
    Check(GraphError, "reshape").refuse("newshape", expected, wanted)


def split(data: Value, indices_or_sections: Numbers, axis: int = 0) -> Tuple[Value]:
    """Cut a tensor into equal parts, or before each of several indices."""
    check_values("split", data=data)
    if is_whole(indices_or_sections):
        (sections,) = whole_numbers("split", "indices_or_sections", indices_or_sections)
        return Tuple(Node(ops.Split(sections, axis), (data,), user_line()).outputs)
    check = Check(GraphError, "split")
    at = check.whole("axis", axis, -data.type.ndim, data.type.ndim - 1) % data.type.ndim
    cuts = whole_numbers("split", "indices_or_sections", indices_or_sections)
    ends = [0, *cuts, data.shape[at]]
    if sorted(set(ends)) != ends:
        expected = f"a number of parts, or increasing indices from 1 to {data.shape[at] - 1}"
        check.refuse("indices_or_sections", expected, indices_or_sections)
    return Tuple([_part(data, at, a, b) for a, b in pairwise(ends)])


def _part(data: Value, axis: int, begin: int, end: int) -> Value:
    """Return the elements of an axis from one index to another."""
    first = tuple(begin if i == axis else 0 for i in range(axis + 1))
    last = (*data.shape[:axis], end)
    return apply(ops.StridedSlice(first, last), data)


def strided_slice(
    data: Value,
    begin: Numbers,
    end: Numbers,
    strides: Numbers | None = (),
    axes: Numbers | None = None,
    slice_mode: str = "end",
) -> Value:
    """Take every ``strides``-th element from ``begin`` to ``end``.

    Args:
        data: the tensor.
        begin: for each axis, the first index.
        end: the index after the last; with ``slice_mode="size"`` how many, -1 for all that are
            left.
        strides: steps; one number for all axes, or one for each.
        axes: which axes the numbers are of; by default the first.
        slice_mode: "end" or "size".
    """
    check_values("strided_slice", data=data)
    check = Check(GraphError, "strided_slice")
    check.one_of("slice_mode", slice_mode, ("end", "size"))
    given = {"begin": begin, "end": end, "strides": () if strides is None else strides}
    a, b, c = (whole_numbers("strided_slice", name, each) for name, each in given.items())
    if slice_mode == "size":
        c = ()
        shape = data.shape if axes is None else [data.shape[i] for i in _axes(check, data, axes)]
        sizes = zip(a, b, shape, strict=False)
        b = tuple(n if size == -1 else first + size for first, size, n in sizes)
    if len(c) == 1:
        c = c * len(a)
    if axes is None:
        return apply(ops.StridedSlice(a, b, c), data)
    places = _axes(check, data, axes)
    if not len(places) == len(a) == len(b) or len(c) not in (0, len(a)):
        check.refuse("axes", f"as many axes as numbers, {len(a)}", axes)
    return _sliced(data, places, a, b, c or (1,) * len(a))


def _axes(check: Check, data: Value, axes: Numbers) -> list[int]:
    found = whole_numbers("strided_slice", "axes", axes)
    ndim = data.type.ndim
    return [check.whole("axes", axis, -ndim, ndim - 1) % ndim for axis in found]


def _sliced(
    data: Value,
    places: Sequence[int],
    begin: Sequence[int],
    end: Sequence[int],
    steps: Sequence[int],
) -> Value:
    """Slice some axes, and leave the others."""
    whole = max(places, default=-1) + 1
    first, last, step = [0] * whole, list(data.shape[:whole]), [1] * whole
    for axis, a, b, c in zip(places, begin, end, steps, strict=True):
        first[axis], last[axis], step[axis] = a, b, c
    return apply(ops.StridedSlice(tuple(first), tuple(last), tuple(step)), data)


def take(
    data: Value,
    indices: Value,
    axis: int | None = None,
    batch_dims: int = 0,
    mode: str = "clip",
) -> Value:
    """Take slices along an axis; elements of the flat data by default.

    Args:
        data: the tensor.
        indices: whole numbers.
        axis: which axis they are of.
        batch_dims: how many dimensions both begin with: slices are taken in each of their places.
        mode: what an index beyond the ends means: "clip", the nearest; "wrap", counted on from
            the other end; "fast", which is "clip", as TVM does not say what it reads then.
    """
    check_values("take", data=data, indices=indices)
    Check(GraphError, "take").one_of("mode", mode, ("clip", "wrap", "fast"))
    most = indices.type.ndim
    batch = Check(GraphError, "take").whole("batch_dims", batch_dims, -most, most)
    batch, wrap = batch + most if batch < 0 else batch, mode == "wrap"
    if batch:
        return _taken_in_batches(data, indices, axis, batch, wrap)
    if axis is None:
        return apply(ops.Take(0, wrap), reshape(data, -1), indices)
    return apply(ops.Take(axis, wrap), data, indices)


def _taken_in_batches(
    data: Value, indices: Value, axis: int | None, batch: int, wrap: bool
) -> Value:
    """Take slices along an axis behind the first dimensions, by indices of their own in each."""
    check, ndim = Check(GraphError, "take"), data.type.ndim
    at = check.whole("axis", axis, -ndim, ndim - 1) % ndim
    if at < batch or data.shape[:batch] != indices.shape[:batch]:
        expected = (
            "at most the axis, of dimensions that data and indices both begin with "
            f"({data.type} and {indices.type})"
        )
        check.refuse("batch_dims", expected, batch)
    count, extent = math.prod(data.shape[:batch]), data.shape[at]
    between, after = data.shape[batch:at], data.shape[at + 1 :]
    order = (*range(batch), at, *range(batch, at), *range(at + 1, ndim))
    rows = reshape(apply(ops.Transpose(order), data), (count * extent, *between, *after))
    # Indices may be of too few bits for the extent, or of too many for int32.
    whole = apply(ops.Cast("int64"), indices)
    number = Constant.of(np.asarray(extent, "int64"))
    own = apply(ops.FloorMod(), whole, number) if wrap else apply(ops.Clip(0, extent - 1), whole)
    own = apply(ops.Cast("int32"), own)
    first = np.arange(count, dtype="int32") * extent
    alone = (*indices.shape[:batch], *[1] * (indices.type.ndim - batch))
    found = apply(ops.Take(0), rows, apply(ops.Add(), own, Constant.of(first.reshape(alone))))
    # [batch, places, between, after]: what is before the axis goes before the places.
    places, inner = indices.type.ndim - batch, len(between)
    middle = [*range(batch + places, batch + places + inner), *range(batch, batch + places)]
    order = (*range(batch), *middle, *range(batch + places + inner, found.type.ndim))
    return apply(ops.Transpose(order), found)


def picked(data: Value, axis: int, places: object) -> Value:
    """Take the slices of an axis at places that are known."""
    return apply(ops.Take(axis), data, Constant.of(np.asarray(places, "int32")))


def where(condition: Value, x: Value, y: Value) -> Value:
    """Choose by a condition; the three are repeated to one shape."""
    check_values("where", condition=condition, x=x, y=y)
    try:
        shape = np.broadcast_shapes(condition.shape, x.shape, y.shape)
    except ValueError:
        check = Check(GraphError, "where")
        check.refuse("condition, x and y", "shapes that broadcast", [condition, x, y])
    return apply(ops.Where(), *[_repeated(each, shape) for each in (condition, x, y)])


def _repeated(value: Value, shape: tuple[int, ...]) -> Value:
    return value if value.shape == shape else apply(ops.BroadcastTo(shape), value)


def tile(data: Value, reps: Numbers) -> Value:
    """Put copies of a tensor side by side."""
    check_values("tile", data=data)
    counts = list(whole_numbers("tile", "reps", reps))
    if min(counts, default=1) < 1:
        Check(GraphError, "tile").refuse("reps", "whole numbers of at least 1", reps)
    ndim = max(len(counts), data.type.ndim)
    shape = [1] * (ndim - data.type.ndim) + list(data.shape)
    counts = [1] * (ndim - len(counts)) + counts
    # One axis of copies before each axis.
    alone = tuple(n for extent in shape for n in (1, extent))
    copied = tuple(n for pair in zip(counts, shape, strict=True) for n in pair)
    spread = _repeated(apply(ops.Reshape(alone), data), copied)
    return apply(ops.Reshape(tuple(n * r for n, r in zip(shape, counts, strict=True))), spread)


def repeat(data: Value, repeats: int, axis: int) -> Value:
    """Repeat each slice of an axis."""
    check_values("repeat", data=data)
    check, ndim = Check(GraphError, "repeat"), data.type.ndim
    check.whole("repeats", repeats, 1)
    at = check.whole("axis", axis, -ndim, ndim - 1) % ndim
    return picked(data, at, np.repeat(np.arange(data.shape[at]), repeats))


def reverse(data: Value, axis: int) -> Value:
    """Put the slices of an axis in the other order."""
    check_values("reverse", data=data)
    ndim = data.type.ndim
    at = Check(GraphError, "reverse").whole("axis", axis, -ndim, ndim - 1) % ndim
    return picked(data, at, np.arange(data.shape[at])[::-1])
