"""TVM's operators that read or write where indices say.

What is written is looked for by each element of the result: every index is compared with its
place. That suits few updates; `autotune.SourceKernel` suits many.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from math import prod

from autotune import te
from autotune.ir import Expr, is_int
from autotune.te.tensor import Tensor
from autotune.topi.arguments import asks, takes, tensor
from autotune.topi.utils import normal_axis, static_shape, unravel_index

__all__ = [
    "arange", "cumprod", "cumsum", "gather", "gather_nd", "one_hot", "scatter", "scatter_add",
    "scatter_elements", "scatter_nd",
]  # fmt: skip

_product = te.comm_reducer(lambda x, y: x * y, lambda kind: te.const(1, kind), "prod")


def _computed(shape: Sequence[object], body: Callable[..., object], name: str) -> Tensor:
    found: Tensor = te.compute(tuple(shape), body, name=name)
    return found


def _whole(what: str, indices: Tensor) -> None:
    if not is_int(indices.dtype):
        asks(what).refuse("indices", "a tensor of whole numbers", indices)


def _from_front(index: Expr, extent: int) -> Expr:
    """Return an index counted from the front, where a negative one counts from the end."""
    return te.Select(index < 0, index + extent, index)


@takes(data=tensor, indices=tensor)
def gather(data: Tensor, axis: int, indices: Tensor) -> Tensor:
    """Read along an axis at the indices, which have the other dimensions of the data too."""
    _whole("gather", indices)
    at = normal_axis("gather", axis, data.ndim)
    extent = static_shape("gather", "data", data, data.ndim)[at]
    if indices.ndim != data.ndim:
        asks("gather").refuse("indices", f"a tensor of {data.ndim} dimensions", indices)

    def read(*i: Expr) -> Expr:
        found: Expr = data(*i[:at], _from_front(indices(*i), extent), *i[at + 1 :])
        return found

    return _computed(indices.shape, read, "gather")


@takes(a=tensor, indices=tensor)
def gather_nd(a: Tensor, indices: Tensor, batch_dims: int = 0) -> Tensor:
    """Read at points: ``indices[:, ...]`` has the coordinates of each, in the first dimensions.

    Args:
        a: what to read.
        indices: coordinates along its first dimension.
        batch_dims: how many dimensions of both, behind the coordinates, are the same.
    """
    _whole("gather_nd", indices)
    count, *points = static_shape("gather_nd", "indices", indices, indices.ndim)
    shape = static_shape("gather_nd", "a", a, a.ndim)
    if batch_dims + count > a.ndim:
        asks("gather_nd").refuse("indices", f"at most {a.ndim - batch_dims} coordinates", indices)

    def read(*i: Expr) -> Expr:
        point, rest = i[: len(points)], i[len(points) :]
        at = [
            _from_front(indices(n, *point), shape[batch_dims + n]) for n in range(count)
        ]  # fmt: skip
        found: Expr = a(*point[:batch_dims], *at, *rest)
        return found

    return _computed([*points, *shape[batch_dims + count :]], read, "gather_nd")


@takes(indices=tensor)
def one_hot(
    indices: Tensor, on_value: float, off_value: float, depth: int, axis: int, dtype: str
) -> Tensor:
    """Return, along a new axis, one value at the index and another elsewhere."""
    _whole("one_hot", indices)
    at = normal_axis("one_hot", axis, indices.ndim + 1)
    on, off = te.const(on_value, dtype), te.const(off_value, dtype)

    def value(*i: Expr) -> Expr:
        return te.Select(indices(*i[:at], *i[at + 1 :]) == i[at], on, off)

    return _computed([*indices.shape[:at], depth, *indices.shape[at:]], value, "T_one_hot")


@takes(data=tensor, indices=tensor, updates=tensor)
def scatter_elements(
    data: Tensor, indices: Tensor, updates: Tensor, axis: int = 0, reduction: str = "update"
) -> Tensor:
    """Return data with updates written along an axis, at the indices.

    Args:
        data: what is changed.
        indices: where along the axis; the other dimensions are those of the data.
        updates: of the shape of the indices.
        axis: along which.
        reduction: ``"update"``, where of several the last counts; ``"add"``, ``"mul"``, ``"min"``
            or ``"max"``.
    """
    _whole("scatter_elements", indices)
    at = normal_axis("scatter_elements", axis, data.ndim)
    shape = static_shape("scatter_elements", "data", data, data.ndim)
    places = static_shape("scatter_elements", "indices", indices, data.ndim)
    if any(n != places[i] for i, n in enumerate(shape) if i != at):
        asks("scatter_elements").refuse("indices", f"the shape {shape} but for the axis", indices)
    _of_shape("scatter_elements", updates, places)
    source = te.reduce_axis((0, places[at]), name="source")

    def hits(i: tuple[Expr, ...], j: Expr) -> tuple[Expr, Expr]:
        from_ = (*i[:at], j, *i[at + 1 :])
        return _from_front(indices(*from_), shape[at]) == i[at], updates(*from_)

    return _written(data, hits, source, reduction, "scatter_elements")


@takes(data=tensor, indices=tensor, updates=tensor)
def scatter_nd(data: Tensor, indices: Tensor, updates: Tensor, mode: str = "update") -> Tensor:
    """Return data with updates written at points: ``indices[:, ...]`` has the coordinates.

    Args:
        data: what is changed.
        indices: coordinates along its first dimension.
        updates: for each point what is written.
        mode: as ``reduction`` of `scatter_elements`.
    """
    _whole("scatter_nd", indices)
    count, *points = static_shape("scatter_nd", "indices", indices, indices.ndim)
    shape = static_shape("scatter_nd", "data", data, data.ndim)
    if count > data.ndim:
        asks("scatter_nd").refuse("indices", f"at most {data.ndim} coordinates", indices)
    _of_shape("scatter_nd", updates, (*points, *shape[count:]))
    source = te.reduce_axis((0, prod(points)), name="source")

    def hits(i: tuple[Expr, ...], j: Expr) -> tuple[Expr, Expr]:
        point = unravel_index(j, points)
        same = [_from_front(indices(n, *point), shape[n]) == i[n] for n in range(count)]
        return te.all(*same), updates(*point, *i[count:])

    return _written(data, hits, source, mode, "scatter_nd")


def _of_shape(what: str, updates: Tensor, shape: tuple[int, ...]) -> None:
    """Refuse updates of another shape; elements beyond theirs would be read."""
    if static_shape(what, "updates", updates, updates.ndim) != shape:
        asks(what).refuse("updates", f"the shape {shape}", updates)


def scatter(data: Tensor, indices: Tensor, updates: Tensor, axis: int = 0) -> Tensor:
    """Do what `scatter_elements` does; TVM's name of it up to 0.11."""
    return scatter_elements(data, indices, updates, axis)


def scatter_add(data: Tensor, indices: Tensor, updates: Tensor, axis: int = 0) -> Tensor:
    """Do what `scatter_elements` does with ``"add"``; TVM's name of it up to 0.11."""
    return scatter_elements(data, indices, updates, axis, "add")


def _written(
    data: Tensor,
    hits: Callable[[tuple[Expr, ...], Expr], tuple[Expr, Expr]],
    source: te.IterVar,
    reduction: str,
    what: str,
) -> Tensor:
    """Return data with updates: ``hits`` says whether update ``j`` is of an element, and it."""
    asks(what).one_of("reduction", reduction, ("update", "add", "mul", "min", "max"))
    if reduction == "update":
        none = te.const(-1, "int32")

        def latest(*i: Expr) -> Expr:
            return te.max(te.Select(hits(i, source.var)[0], source.var, none), axis=source)

        last = _computed(data.shape, latest, f"{what}_last")
        return _computed(
            data.shape,
            lambda *i: te.if_then_else(last(*i) >= 0, hits(i, last(*i))[1], data(*i)),
            what,
        )
    reduce, join, neutral = _reductions(data.dtype)[reduction]

    def joined(*i: Expr) -> Expr:
        found, update = hits(i, source.var)
        value: Expr = reduce(te.Select(found, update, neutral), axis=source)
        return value

    both = _computed(data.shape, joined, f"{what}_{reduction}")
    return _computed(data.shape, lambda *i: join(data(*i), both(*i)), what)


Join = Callable[..., Expr]


def _reductions(kind: str) -> dict[str, tuple[Join, Join, Expr]]:
    """Return how updates are reduced, how they are joined to data, and what changes neither."""
    return {
        "add": (te.sum, operator.add, te.const(0, kind)),
        "mul": (_product, operator.mul, te.const(1, kind)),
        "min": (te.min, te.min, te.max_value(kind)),
        "max": (te.max, te.max, te.min_value(kind)),
    }


def cumsum(
    data: Tensor, axis: int | None = None, dtype: str | None = None, exclusive: bool | None = None
) -> Tensor:
    """Sum all elements up to each; see `cumprod`."""
    return _prefixes("cumsum", te.sum, 0, data, axis, dtype, exclusive)


def cumprod(
    data: Tensor, axis: int | None = None, dtype: str | None = None, exclusive: bool | None = None
) -> Tensor:
    """Multiply all elements up to each, anew for each: `n` times `n` operations.

    Args:
        data: the elements.
        axis: along which; None for all in row-major order.
        dtype: of the result; by default that of the data.
        exclusive: whether each element itself is left out.
    """
    return _prefixes("cumprod", _product, 1, data, axis, dtype, exclusive)


def _prefixes(
    what: str,
    reduce: Callable[..., Expr],
    neutral: int,
    data: Tensor,
    axis: int | None,
    dtype: str | None,
    exclusive: bool | None,
) -> Tensor:
    shape = static_shape(what, "data", data, data.ndim)
    kind = dtype or data.dtype
    at = 0 if axis is None else normal_axis(what, axis, data.ndim)
    whole = [prod(shape)] if axis is None else list(shape)
    before = te.reduce_axis((0, whole[at]), name="before")

    def value(*i: Expr) -> Expr:
        counts = before.var < i[at] if exclusive else before.var <= i[at]
        place: Sequence[Expr] = (*i[:at], before.var, *i[at + 1 :])
        element = data(*(unravel_index(before.var, shape) if axis is None else place))
        kept = te.Select(counts, te.cast(element, kind), te.const(neutral, kind))
        return reduce(kept, axis=before)

    return _computed(whole, value, what)


def arange(
    start: float, stop: float | None = None, step: float = 1, dtype: str = "float32"
) -> Tensor:
    """Return numbers of equal distances, as numpy's `arange`."""
    low, high = (0, start) if stop is None else (start, stop)
    count = -int(-(high - low) // step)
    if count < 1:
        asks("arange").refuse("stop", "a number behind start", stop)
    first, distance = te.const(low, dtype), te.const(step, dtype)
    return _computed([count], lambda i: first + te.cast(i, dtype) * distance, "T_arange")
