"""Operators of ``relay`` on coordinates: grids, triangles, elements at several indices."""

from __future__ import annotations

import math

import numpy as np

from autotune.errors import GraphError
from autotune.graph import Constant, Value, apply, ops
from autotune.tvm.relay.arguments import check_values
from autotune.tvm.relay.elementwise import add, clip, multiply
from autotune.tvm.relay.function import Tuple, flattened
from autotune.tvm.relay.rearranged import reshape, take, where
from autotune.utils.check import Check

__all__ = ["gather_nd", "meshgrid", "trilu"]


def gather_nd(
    data: Value, indices: Value, batch_dims: int = 0, index_rank: int | None = None
) -> Value:
    """Take the elements, or slices, at indices of the first axes.

    Args:
        data: the tensor.
        indices: [M, ...]: of each of the first M axes the index; beyond its ends it is limited.
        batch_dims: only 0 is known.
        index_rank: M, which the shape says.
    """
    del index_rank
    check_values("gather_nd", data=data, indices=indices)
    check = Check(GraphError, "gather_nd")
    if batch_dims:
        check.refuse("batch_dims", "0", batch_dims)
    count = indices.shape[0] if indices.type.ndim else 0
    if not 0 < count <= data.type.ndim:
        check.refuse("indices", f"of 1 to {data.type.ndim} axes, for {data.type}", indices.type)
    first, rest = data.shape[:count], data.shape[count:]
    whole = apply(ops.Cast("int32"), indices)
    place: Value | None = None
    for axis, extent in enumerate(first):
        index = take(whole, Constant.of(np.int32(axis)), 0)
        step = Constant.of(np.int32(math.prod(first[axis + 1 :])))
        term = multiply(clip(index, 0, extent - 1), step)
        place = term if place is None else add(place, term)
    assert place is not None
    return take(reshape(data, (math.prod(first), *rest)), place, 0)


def meshgrid(data: object, indexing: str = "ij") -> Tuple[Value]:
    """Return for each of several vectors its coordinate at each point of their grid."""
    vectors = flattened(data)
    check = Check(GraphError, "meshgrid")
    check.one_of("indexing", indexing, ("ij", "xy"))
    if any(each.type.ndim > 1 for each in vectors):
        check.refuse("data", "vectors", [str(each.type) for each in vectors])
    extents = [each.type.size for each in vectors]
    places = list(range(len(vectors)))
    if indexing == "xy" and len(places) > 1:
        places[:2] = [1, 0]
    shape = tuple(extents[i] for i in places)
    return Tuple([
        apply(
            ops.BroadcastTo(shape),
            reshape(each, [extents[i] if i == own else 1 for i in places]),
        )
        for own, each in enumerate(vectors)
    ])  # fmt: skip


def trilu(data: Value, k: object, upper: bool = True) -> Value:
    """Keep the upper or the lower triangle of matrices; all else becomes 0.

    Args:
        data: the matrices, in the last two axes.
        k: the number of the diagonal that is kept, a number or a constant.
        upper: which triangle.
    """
    check_values("trilu", data=data)
    check = Check(GraphError, "trilu")
    if data.type.ndim < 2:
        check.refuse("data", "matrices", data.type)
    number = k.array.item() if isinstance(k, Constant) and k.type.size == 1 else k
    diagonal = check.whole("k", number)
    kept = np.ones(data.shape[-2:], "bool")
    kept = np.triu(kept, diagonal) if check.flag("upper", upper) else np.tril(kept, diagonal)
    zero = apply(ops.Full(data.shape), Constant.of(np.zeros((), "int8"), dtype=data.dtype))
    seen = apply(ops.BroadcastTo(data.shape), Constant.of(kept))
    return where(seen, data, zero)
