"""Operators that move elements: transpose, reshape, slices, concatenation."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from autotune import te
from autotune.errors import ExpressionError
from autotune.te.tensor import Tensor
from autotune.topi import tag
from autotune.topi.nn.dense import matmul as multiply
from autotune.topi.utils import axis_names, get_const_tuple, normal_axes, normal_axis
from autotune.utils.math import product


def _moved(shape: Sequence[Any], body: Callable[..., Any], name: str) -> Tensor:
    names = axis_names(len(shape))
    result: Tensor = te.compute(list(shape), body, name, tag.INJECTIVE, varargs_names=names)
    return result


def transpose(a: Tensor, axes: Sequence[int] | None = None) -> Tensor:
    """Permute dimensions; reverse them by default."""
    order = [normal_axis("transpose", x, a.ndim) for x in axes or reversed(range(a.ndim))]
    if sorted(order) != list(range(a.ndim)):
        raise ExpressionError(f"transpose: axes must be a permutation of 0..{a.ndim - 1}: {axes}")

    def body(*i: Any) -> Any:
        source: list[Any] = [0] * a.ndim
        for at, axis in zip(i, order, strict=True):
            source[axis] = at
        return a(*source)

    return _moved([a.shape[x] for x in order], body, "T_transpose")


def _unravelled(index: Any, shape: Sequence[int]) -> list[Any]:
    """Return the indices of the element at a row-major offset."""
    result: list[Any] = []
    for axis, extent in enumerate(reversed(shape)):
        last = axis == len(shape) - 1
        result.append(index if last else te.indexmod(index, extent))
        index = te.indexdiv(index, extent)
    return result[::-1]


def _ravelled(indices: Sequence[Any], shape: Sequence[int]) -> Any:
    offset: Any = 0
    for index, extent in zip(indices, shape, strict=True):
        offset = offset * extent + index
    return te.const(offset, "int32") if isinstance(offset, int) else offset


def reshape(a: Tensor, newshape: Sequence[int]) -> Tensor:
    """Give the elements, in row-major order, another shape; one extent may be -1."""
    old, new = get_const_tuple(a.shape), list(get_const_tuple(newshape))
    if new.count(-1) == 1:
        new[new.index(-1)] = product(old) // max(-product(new), 1)
    if product(old) != product(new) or min([*new, 1]) < 1:
        raise ExpressionError(f"reshape: {a.name} of shape {old} does not fit {newshape}")
    return _moved(new, lambda *i: a(*_unravelled(_ravelled(i, new), old)), "T_reshape")


def expand_dims(a: Tensor, axis: int, num_newaxis: int = 1) -> Tensor:
    """Insert dimensions of extent 1 before ``axis``."""
    at = normal_axis("expand_dims", axis, a.ndim + 1)
    shape = [*a.shape[:at], *[1] * num_newaxis, *a.shape[at:]]
    return _moved(shape, lambda *i: a(*i[:at], *i[at + num_newaxis :]), "T_expand_dims")


def squeeze(a: Tensor, axis: int | Sequence[int] | None = None) -> Tensor:
    """Drop dimensions of extent 1: those given, or all."""
    shape = get_const_tuple(a.shape)
    ones = [i for i, n in enumerate(shape) if n == 1]
    drop = ones if axis is None else normal_axes("squeeze", axis, a.ndim)
    if not set(drop) <= set(ones):
        raise ExpressionError(f"squeeze: axes {drop} of {a.name}, shape {shape}, must be of 1")
    left = [i for i in range(a.ndim) if i not in drop]

    def body(*i: Any) -> Any:
        at = dict(zip(left, i, strict=True))
        return a(*[at.get(k, 0) for k in range(a.ndim)])

    return _moved([shape[i] for i in left], body, "T_squeeze")


def concatenate(a_tuple: Sequence[Tensor], axis: int = 0) -> Tensor:
    """Join tensors along an axis."""
    first, rest = a_tuple[0], a_tuple[1:]
    at = normal_axis("concatenate", axis, first.ndim)
    shapes = [get_const_tuple(t.shape) for t in a_tuple]
    for tensor, shape in zip(rest, shapes[1:], strict=True):
        if (*shape[:at], *shape[at + 1 :]) != (*shapes[0][:at], *shapes[0][at + 1 :]):
            raise ExpressionError(
                f"concatenate: {tensor.name} of shape {shape} does not fit {shapes[0]} along {at}"
            )

    def body(*i: Any) -> Any:
        value, before = first(*i), shapes[0][at]
        for tensor, shape in zip(rest, shapes[1:], strict=True):
            shifted = (*i[:at], i[at] - before, *i[at + 1 :])
            value = te.if_then_else(i[at] >= before, tensor(*shifted), value)
            before += shape[at]
        return value

    total = [*shapes[0]]
    total[at] = sum(shape[at] for shape in shapes)
    return _moved(total, body, "T_concat")


def strided_slice(
    a: Tensor,
    begin: Sequence[int],
    end: Sequence[int],
    strides: Sequence[int] | None = None,
    axes: Sequence[int] | str | None = None,
    slice_mode: str = "end",
) -> Tensor:
    """Take every ``strides``-th element from ``begin`` to ``end`` of each dimension, as numpy.

    Args:
        a: what to take from.
        begin: the first index of each dimension; a negative one counts from the end.
        end: what is no longer taken; in mode ``"size"`` how many elements are, -1 for the rest.
        strides: the steps; 1 where they are not given, and in mode ``"size"``.
        axes: the dimensions that ``begin``, ``end`` and ``strides`` are of; the first by default.
            TVM until 0.7 had the mode in this place, which is understood.
        slice_mode: ``"end"`` or ``"size"``.
    """
    mode, named = (axes, None) if isinstance(axes, str) else (slice_mode, axes)
    shape = get_const_tuple(a.shape)
    parts = [slice(None)] * a.ndim
    places = _places(named, a.ndim)
    for place, part in zip(places, _slices(begin, end, strides, mode), strict=False):
        parts[place] = part
    ranges = [range(*part.indices(n)) for part, n in zip(parts, shape, strict=True)]
    if not all(ranges):
        raise ExpressionError(
            f"strided_slice: nothing is left of {a.name}, shape {shape}, from {begin} to {end}"
        )

    def body(*i: Any) -> Any:
        return a(*[r.start + x * r.step for r, x in zip(ranges, i, strict=True)])

    return _moved([len(r) for r in ranges], body, "T_strided_slice")


def _places(axes: Sequence[int] | None, ndim: int) -> Sequence[int]:
    """Return the dimensions that are named, in the order in which they are."""
    if axes is None:
        return range(ndim)
    normal_axes("strided_slice", axes, ndim)
    return [normal_axis("strided_slice", axis, ndim) for axis in axes]


def _slices(
    begin: Sequence[int], end: Sequence[int], strides: Sequence[int] | None, mode: str
) -> list[slice]:
    """Return what is taken of the dimensions that are named."""
    if mode not in ("end", "size"):
        raise ExpressionError(f"strided_slice: slice_mode must be 'end' or 'size', got {mode!r}")
    if mode == "end":
        steps = [*(strides or ()), *[1] * len(begin)]
        return [slice(b, e, s) for b, e, s in zip(begin, end, steps, strict=False)]
    # What reaches the end of a dimension from a negative index has no end, rather than 0.
    stops = [b + n or None if n >= 0 else None for b, n in zip(begin, end, strict=True)]
    return [slice(b, stop) for b, stop in zip(begin, stops, strict=True)]


def matmul(a: Tensor, b: Tensor, transp_a: bool = False, transp_b: bool = False) -> Tensor:
    """Multiply two matrices, each of which may be stored transposed.

    `topi.nn.matmul` takes a bias and a dtype too.
    """
    return multiply(a, b, transpose_a=transp_a, transpose_b=transp_b)


def flip(a: Tensor, axis: int = 0) -> Tensor:
    """Reverse an axis."""
    at = normal_axis("flip", axis, a.ndim)
    last = get_const_tuple(a.shape)[at] - 1
    return _moved(a.shape, lambda *i: a(*i[:at], last - i[at], *i[at + 1 :]), "T_flip")


def where(condition: Tensor, x: Tensor, y: Tensor) -> Tensor:
    """Take elements of ``x`` where the condition holds, else of ``y``; one shape for all."""

    def body(*i: Any) -> Any:
        return te.Select(condition(*i) != 0, x(*i), y(*i))

    result: Tensor = te.compute(
        x.shape, body, "T_where", tag.BROADCAST, varargs_names=axis_names(x.ndim)
    )
    return result
