"""Operators of ``relay`` that find, order and pick elements, and move them to another layout."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence

import numpy as np

from autotune.errors import GraphError
from autotune.graph import Constant, Value, apply, ops
from autotune.importers.ranks import first_along
from autotune.runtime.arrays.array import numpy_dtype
from autotune.tvm.relay.arguments import Numbers, check_values, whole_numbers
from autotune.tvm.relay.elementwise import add, clip, equal, multiply
from autotune.tvm.relay.function import Tuple
from autotune.tvm.relay.rearranged import reshape, strided_slice, take, where
from autotune.utils.check import Check

__all__ = [
    "arange",
    "argsort",
    "gather",
    "layout_transform",
    "ndarray_size",
    "one_hot",
    "shape_of",
    "slice_like",
    "sort",
    "topk",
]


def _known(name: str, argument: str, value: object) -> float:
    """Return a number that is given as such, or as a constant."""
    found = value.array.item() if isinstance(value, Constant) and value.type.size == 1 else value
    return Check(GraphError, name).number(argument, found)


def arange(
    start: object, stop: object = None, step: object = None, dtype: str = "float32"
) -> Value:
    """Return numbers from a start on, below an end; the arguments are numbers or constants."""
    first, last = (0, start) if stop is None else (start, stop)
    begin, end = _known("arange", "start", first), _known("arange", "stop", last)
    distance = 1.0 if step is None else _known("arange", "step", step)
    if not distance or math.ceil((end - begin) / distance) < 1:
        Check(GraphError, "arange").refuse(
            "start, stop and step", "those of at least one number", (begin, end, distance)
        )
    return Constant.of(np.arange(begin, end, distance).astype(numpy_dtype(dtype)))


def one_hot(
    indices: Value, on_value: Value, off_value: Value, depth: int, axis: int, dtype: str
) -> Value:
    """Return a vector for each index, with one value at its place and another elsewhere."""
    check_values("one_hot", indices=indices, on_value=on_value, off_value=off_value)
    check, ndim = Check(GraphError, "one_hot"), indices.type.ndim
    count = check.whole("depth", depth, 1)
    at = check.whole("axis", axis, -ndim - 1, ndim) % (ndim + 1)
    shape = (*indices.shape[:at], 1, *indices.shape[at:])
    places = np.arange(count, dtype=indices.dtype).reshape(
        [-1 if i == at else 1 for i in range(ndim + 1)]
    )
    hit = equal(reshape(indices, shape), Constant.of(places))
    values = [apply(ops.Cast(dtype), each) for each in (on_value, off_value)]
    return where(hit, *[apply(ops.BroadcastTo(hit.shape), each) for each in values])


def topk(
    data: Value,
    k: int = 1,
    axis: int = -1,
    ret_type: str = "both",
    is_ascend: bool = False,
    dtype: str = "int32",
) -> Tuple[Value] | Value:
    """Return the greatest or least elements of an axis in order, and where they are.

    Args:
        data: the tensor.
        k: how many; less than 1 for all.
        axis: the axis.
        ret_type: "both", "values" or "indices".
        is_ascend: whether the least come first.
        dtype: of the indices.
    """
    check_values("topk", data=data)
    check, ndim = Check(GraphError, "topk"), data.type.ndim
    at = check.whole("axis", axis, -ndim, ndim - 1) % ndim
    check.one_of("ret_type", ret_type, ("both", "values", "indices"))
    count = check.whole("k", k)
    count = data.shape[at] if count < 1 else count
    values, places = first_along(data, at, count, not check.flag("is_ascend", is_ascend), "topk")
    indices = apply(ops.Cast(dtype), places)
    if ret_type == "both":
        return Tuple([values, indices])
    return values if ret_type == "values" else indices


def sort(data: Value, axis: int = -1, is_ascend: bool = True) -> Value:
    """Order the elements of an axis."""
    found = topk(data, 0, axis, "values", is_ascend)
    assert isinstance(found, Value)
    return found


def argsort(
    data: Value,
    axis: int = -1,
    is_ascend: bool = True,
    dtype: str = "int32",
    valid_count: object = None,
) -> Value:
    """Return where the elements of an axis are that come first, second, ... in order."""
    if valid_count is not None:
        Check(GraphError, "argsort").refuse("valid_count", "None", valid_count)
    found = topk(data, 0, axis, "indices", is_ascend, dtype)
    assert isinstance(found, Value)
    return found


def gather(data: Value, axis: int, indices: Value) -> Value:
    """Take for each index the element of its line along an axis."""
    check_values("gather", data=data, indices=indices)
    check, ndim = Check(GraphError, "gather"), data.type.ndim
    at = check.whole("axis", axis, -ndim, ndim - 1) % ndim
    same = indices.type.ndim == ndim and all(
        i == at or n == m for i, (n, m) in enumerate(zip(data.shape, indices.shape, strict=True))
    )
    if not same:
        check.refuse("indices", f"of the shape of {data.type} but for axis {at}", indices.type)
    strides = [math.prod(data.shape[i + 1 :]) for i in range(ndim)]
    grid = np.indices(indices.shape, dtype="int64")
    lines = sum(grid[i] * strides[i] for i in range(ndim) if i != at) + np.zeros(indices.shape)
    near = clip(apply(ops.Cast("int32"), indices), 0, data.shape[at] - 1)
    far = multiply(near, Constant.of(np.int32(strides[at])))
    return take(reshape(data, -1), add(far, Constant.of(np.asarray(lines, "int32"))), 0)


def slice_like(data: Value, shape_like: Value, axes: Numbers | None = None) -> Value:
    """Take the first elements of axes, as many as another tensor has; of all axes by default."""
    check_values("slice_like", data=data, shape_like=shape_like)
    check, ndim = Check(GraphError, "slice_like"), data.type.ndim
    named = () if axes is None else whole_numbers("slice_like", "axes", axes)
    given = named or range(shape_like.type.ndim)
    places = [check.whole("axes", axis, -ndim, ndim - 1) % ndim for axis in given]
    end = list(data.shape)
    for at in places:
        if at >= shape_like.type.ndim or shape_like.shape[at] > end[at]:
            check.refuse("shape_like", f"no larger than {data.type} along {at}", shape_like.type)
        end[at] = shape_like.shape[at]
    return strided_slice(data, [0] * ndim, end)


def shape_of(data: Value, dtype: str = "int32") -> Value:
    """Return the extents of a tensor, which are constant here."""
    check_values("shape_of", data=data)
    return Constant.of(np.asarray(data.shape, numpy_dtype(dtype)))


def ndarray_size(data: Value, dtype: str = "int32") -> Value:
    """Return the number of elements of a tensor, which is constant here."""
    check_values("ndarray_size", data=data)
    return Constant.of(np.asarray(data.type.size, numpy_dtype(dtype)))


def layout_transform(data: Value, src_layout: str, dst_layout: str) -> Value:
    """Permute axes, and divide or join them: "NCHW" to "NCHW4c" has blocks of 4 channels.

    Raises:
        GraphError: the layouts have other axes, or blocks do not divide an axis.
    """
    check_values("layout_transform", data=data)
    source, wanted = (
        _axes_of(*each) for each in (("src_layout", src_layout), ("dst_layout", dst_layout))
    )
    check = Check(GraphError, "layout_transform")
    if {a for a, size in source if not size} != {a for a, size in wanted if not size}:
        check.refuse("dst_layout", f"of the axes of {src_layout}", dst_layout)
    if len(source) != data.type.ndim:
        check.refuse("src_layout", f"of {data.type.ndim} axes, for {data.type}", src_layout)
    whole = _joined(data, source)
    extents = dict(zip([a for a, size in source if not size], whole.shape, strict=True))
    return _divided(check, whole, list(extents), wanted)


def _axes_of(name: str, layout: str) -> list[tuple[str, int]]:
    """Return the axes of a layout, and the sizes of those that are blocks of another."""
    found = (
        re.fullmatch(r"(?:[A-Z]|[1-9][0-9]*[a-z])+", layout) if isinstance(layout, str) else None
    )
    axes = re.findall(r"([0-9]*)([A-Za-z])", layout) if found else []
    pairs = [(letter, int(size or 0)) for size, letter in axes]
    letters = [letter for letter, _ in pairs]
    inner = [letter.upper() for letter, size in pairs if size]
    if not pairs or len({*letters}) != len(letters) or not {*inner} <= {*letters}:
        check = Check(GraphError, "layout_transform")
        check.refuse(name, "axes and blocks of them, such as NCHW or NCHW4c", layout)
    return pairs


def _joined(data: Value, axes: Sequence[tuple[str, int]]) -> Value:
    """Return data whose blocks are part of their axes, which keep their order."""
    letters = [letter for letter, _ in axes]
    order, shape = [], []
    for at, (letter, size) in enumerate(axes):
        if size:
            continue
        order.append(at)
        extent = data.shape[at]
        if letter.lower() in letters:
            inner = letters.index(letter.lower())
            order.append(inner)
            extent *= data.shape[inner]
        shape.append(extent)
    moved = data if order == sorted(order) else apply(ops.Transpose(tuple(order)), data)
    return moved if tuple(shape) == moved.shape else reshape(moved, shape)


def _divided(
    check: Check, data: Value, letters: Sequence[str], wanted: Sequence[tuple[str, int]]
) -> Value:
    """Return data with the axes of a layout, some of which are blocks of others."""
    blocks = {letter.upper(): size for letter, size in wanted if size}
    shape: list[int] = []
    places: dict[str, int] = {}
    for letter, extent in zip(letters, data.shape, strict=True):
        places[letter] = len(shape)
        size = blocks.get(letter)
        if size is None:
            shape.append(extent)
            continue
        if extent % size:
            check.refuse("dst_layout", f"blocks that divide {extent} of axis {letter}", size)
        places[letter.lower()] = len(shape) + 1
        shape += [extent // size, size]
    apart = data if tuple(shape) == data.shape else reshape(data, shape)
    order = tuple(places[letter] for letter, _ in wanted)
    return apart if order == tuple(sorted(order)) else apply(ops.Transpose(order), apart)
