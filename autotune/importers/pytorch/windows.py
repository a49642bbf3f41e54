"""Where the greatest elements of windows are."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import cache

import numpy as np

from autotune.graph import Array, Constant, TensorType, Value, ops
from autotune.importers.pytorch.call import Call
from autotune.importers.ranks import neutral

# The windows of each axis: where their elements are, which may be beyond its ends.
Parts = Sequence[Sequence[range]]


def places_of_greatest(call: Call, x: Value, parts: Parts) -> Value:
    """Return where in its image the greatest element of each window is.

    As in torch: the first of equals, and the last of what is no number. Nothing is computed before
    it is asked for, since most models do not.
    """
    dims = len(parts)
    extents = x.shape[-dims:]
    planes = math.prod(x.shape[:-dims])
    count = math.prod(len(each) for each in parts)
    size = math.prod(max(map(len, each)) for each in parts)

    @cache
    def table() -> tuple[Array, Array]:
        return _table(parts, extents)

    def known(number: int, dtype: str, shape: tuple[int, ...] = (1, count, size)) -> Value:
        kind = TensorType(shape, dtype)
        return Constant(kind, lambda: table()[number].reshape(shape).astype(dtype))

    flat = call.reshape(x, (planes, math.prod(extents)))
    read = call.apply(ops.Take(1), flat, known(0, "int32", (count * size,)))
    whole = (planes, count, size)
    read = call.reshape(read, whole)
    inside = call.expand(known(1, "bool"), whole)
    least = call.expand(call.constant(neutral("max", x.dtype), x.dtype), whole)
    chosen = call.apply(ops.Where(), inside, read, least)
    place = call.apply(ops.Argmax((2,)), chosen)
    if "float" in x.dtype:
        own = call.constant(np.arange(size, dtype="int32").reshape(1, 1, size))
        nowhere = call.expand(call.constant(-1, "int32"), whole)
        failed = call.apply(ops.IsNan(), chosen)
        last = call.apply(ops.Where(), failed, call.expand(own, whole), nowhere)
        last = call.apply(ops.Max((2,)), last)
        found = call.apply(ops.GreaterEqual(), last, call.constant(0, "int32"))
        place = call.apply(ops.Where(), found, last, place)
    begin = call.constant(np.arange(count, dtype="int32").reshape(1, count) * size)
    where = call.apply(ops.Add(), place, begin)
    made = call.apply(ops.Take(0), known(0, "int32", (count * size,)), where)
    return call.cast(call.reshape(made, call.types[-1].shape), "int64")


def _table(parts: Parts, extents: Sequence[int]) -> tuple[Array, Array]:
    """Return for all elements of all windows their places in an image, and which are inside.

    What is outside has the place of the window's first element that is inside.
    """
    places, inside = np.zeros((1, 1), "int64"), np.ones((1, 1), "bool")
    for windows, extent in zip(parts, extents, strict=True):
        longest = max(map(len, windows))
        each = np.array([[*w, *(-1 for _ in range(longest - len(w)))] for w in windows])
        valid = (each >= 0) & (each < extent)
        own = np.where(valid, each, each[np.arange(len(each)), valid.argmax(1)][:, None])
        places = _outer(np.add, places * extent, own)
        inside = _outer(np.logical_and, inside, valid)
    return places, inside


def _outer(function: np.ufunc, a: Array, b: Array) -> Array:
    """Combine all windows, and all elements of a window, of two axes."""
    made = function(a[:, None, :, None], b[None, :, None, :])
    found: Array = made.reshape(len(a) * len(b), -1)
    return found
