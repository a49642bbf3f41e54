"""Operators that move elements: transpose, reshape, slices, concatenation."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import pairwise
from math import prod
from numbers import Real

from autotune import te
from autotune.errors import ExpressionError
from autotune.ir import Expr, is_int
from autotune.te.tensor import Tensor
from autotune.topi import tag
from autotune.topi.arguments import (
    asks,
    axes_of,
    check_list,
    flag,
    integer,
    integers,
    plain_integer,
    same_shape,
    takes,
    tensor,
    tensors,
)
from autotune.topi.nn.dense import multiply_matrices
from autotune.topi.utils import (
    axis_names,
    get_const_tuple,
    normal_axes,
    normal_axis,
    ravel_index,
    static_shape,
    unravel_index,
)
from autotune.utils.check import Check


def _moved(shape: Sequence[object], body: Callable[..., Expr], name: str) -> Tensor:
    names = axis_names(len(shape))
    result: Tensor = te.compute(list(shape), body, name, tag.INJECTIVE, varargs_names=names)
    return result


@takes(a=tensor)
def transpose(a: Tensor, axes: Sequence[int] | None = None) -> Tensor:
    """Permute dimensions; reverse them by default."""
    order = _order(a.ndim, axes)

    def body(*i: Expr) -> Expr:
        source: list[int | Expr] = [0] * a.ndim
        for at, axis in zip(i, order, strict=True):
            source[axis] = at
        return a(*source)

    return _moved([a.shape[x] for x in order], body, "T_transpose")


def _order(ndim: int, axes: Sequence[int] | None) -> list[int]:
    """Return the order of `transpose`: for each dimension of the result, the one it was."""
    check = asks("transpose")
    given = [] if axes is None else check_list(check, "axes", axes, "a list of axes")
    if not given:
        return list(reversed(range(ndim)))
    order = axes_of(check, "axes", given, ndim)
    if len(order) != ndim:
        check.refuse("axes", f"a permutation of 0..{ndim - 1}", axes)
    return order


@takes(a=tensor)
def reshape(a: Tensor, newshape: Sequence[int]) -> Tensor:
    """Give the elements, in row-major order, another shape; one extent may be -1."""
    check, old = asks("reshape"), static_shape("reshape", "a", a, a.ndim)
    new = integers(-1)(check, "newshape", [newshape] if isinstance(newshape, Real) else newshape)
    if new.count(-1) == 1:
        new[new.index(-1)] = prod(old) // max(-prod(new), 1)
    if prod(old) != prod(new) or min([*new, 1]) < 1:
        check.refuse("newshape", f"extents of {prod(old)} elements, as {a} has", newshape)
    return _moved(new, lambda *i: a(*unravel_index(ravel_index(i, new), old)), "T_reshape")


@takes(a=tensor, num_newaxis=integer(0))
def expand_dims(a: Tensor, axis: int, num_newaxis: int = 1) -> Tensor:
    """Insert dimensions of extent 1 before ``axis``."""
    at = normal_axis("expand_dims", axis, a.ndim + 1)
    shape = [*a.shape[:at], *[1] * num_newaxis, *a.shape[at:]]
    return _moved(shape, lambda *i: a(*i[:at], *i[at + num_newaxis :]), "T_expand_dims")


@takes(a=tensor)
def squeeze(a: Tensor, axis: int | Sequence[int] | None = None) -> Tensor:
    """Drop dimensions of extent 1: those given, or all."""
    shape = get_const_tuple(a.shape)
    ones = [i for i, n in enumerate(shape) if n == 1]
    drop = ones if axis is None else normal_axes("squeeze", axis, a.ndim)
    if not set(drop) <= set(ones):
        asks("squeeze").refuse("axis", f"axes of extent 1 of {a}", axis)
    left = [i for i in range(a.ndim) if i not in drop]

    def body(*i: Expr) -> Expr:
        at = dict(zip(left, i, strict=True))
        return a(*[at.get(k, 0) for k in range(a.ndim)])

    return _moved([shape[i] for i in left], body, "T_squeeze")


@takes(a_tuple=tensors)
def concatenate(a_tuple: Sequence[Tensor], axis: int = 0) -> Tensor:
    """Join tensors along an axis."""
    first, rest = a_tuple[0], a_tuple[1:]
    at = normal_axis("concatenate", axis, first.ndim)
    shapes = [get_const_tuple(t.shape) for t in a_tuple]
    for i, other in enumerate(a_tuple):
        along = shapes[i][at] if at < other.ndim else "..."
        expected = (*shapes[0][:at], along, *shapes[0][at + 1 :])
        same_shape(asks("concatenate"), f"a_tuple[{i}]", other, expected)

    def body(*i: Expr) -> Expr:
        value, before = first(*i), shapes[0][at]
        for other, shape in zip(rest, shapes[1:], strict=True):
            shifted = (*i[:at], i[at] - before, *i[at + 1 :])
            value = te.if_then_else(i[at] >= before, other(*shifted), value)
            before += shape[at]
        return value

    total = [*shapes[0]]
    total[at] = sum(shape[at] for shape in shapes)
    return _moved(total, body, "T_concat")


@takes(tensors=tensors)
def stack(tensors: Sequence[Tensor], axis: int = 0) -> Tensor:
    """Join tensors of one shape along a new axis."""
    at = normal_axis("stack", axis, tensors[0].ndim + 1)
    for i, other in enumerate(tensors):
        same_shape(asks("stack"), f"tensors[{i}]", other, tensors[0].shape)

    def body(*i: Expr) -> Expr:
        rest = (*i[:at], *i[at + 1 :])
        value = tensors[0](*rest)
        for k, other in enumerate(tensors[1:], 1):
            value = te.if_then_else(i[at] >= k, other(*rest), value)
        return value

    shape = tensors[0].shape
    return _moved([*shape[:at], len(tensors), *shape[at:]], body, "T_stack")


@takes(ary=tensor)
def split(ary: Tensor, indices_or_sections: int | Sequence[int], axis: int = 0) -> list[Tensor]:
    """Cut a tensor along an axis: into so many equal parts, or before each of some indices."""
    check, name = asks("split"), "indices_or_sections"
    at = normal_axis("split", axis, ary.ndim)
    extent = static_shape("split", "ary", ary, ary.ndim)[at]
    if isinstance(indices_or_sections, Sequence):
        cuts = integers(1)(check, name, indices_or_sections)
    else:
        parts = integer(1)(check, name, indices_or_sections)
        if extent % parts:
            check.refuse(name, f"a number that divides {extent}", indices_or_sections)
        cuts = list(range(extent // parts, extent, extent // parts))
    ends = [0, *cuts, extent]
    if any(a >= b for a, b in pairwise(ends)):
        check.refuse(name, f"ascending and less than {extent}", indices_or_sections)

    def part(first: int, last: int) -> Tensor:
        def body(*i: Expr) -> Expr:
            return ary(*i[:at], i[at] + first, *i[at + 1 :])

        return _moved([*ary.shape[:at], last - first, *ary.shape[at + 1 :]], body, "T_split")

    return [part(a, b) for a, b in pairwise(ends)]


@takes(a=tensor, repeats=integer(1))
def repeat(a: Tensor, repeats: int, axis: int = 0) -> Tensor:
    """Put each element of an axis there ``repeats`` times, one after the other."""
    at = normal_axis("repeat", axis, a.ndim)

    def body(*i: Expr) -> Expr:
        return a(*i[:at], te.indexdiv(i[at], repeats), *i[at + 1 :])

    return _moved([*a.shape[:at], a.shape[at] * repeats, *a.shape[at + 1 :]], body, "T_repeat")


@takes(a=tensor)
def tile(a: Tensor, reps: int | Sequence[int]) -> Tensor:
    """Put whole copies of a tensor side by side, ``reps`` of them along each axis, as numpy."""
    times = integers(1)(asks("tile"), "reps", [reps] if isinstance(reps, Real) else reps)
    times = [1] * (a.ndim - len(times)) + times
    new = len(times) - a.ndim
    own = [1] * new + [*a.shape]

    def body(*i: Expr) -> Expr:
        copied = zip(i[new:], a.shape, times[new:], strict=True)
        return a(*[te.indexmod(at, n) if count > 1 else at for at, n, count in copied])

    return _moved([n * count for n, count in zip(own, times, strict=True)], body, "T_tile")


@takes(a=tensor, indices=tensor)
def take(
    a: Tensor, indices: Tensor, axis: int | None = None, batch_dims: int = 0, mode: str = "clip"
) -> Tensor:
    """Read the elements that indices name: along an axis, or of all in row-major order.

    Args:
        a: what to read.
        indices: whole numbers, which may be any array.
        axis: what they are indices of; None for the elements of the whole tensor.
        batch_dims: only 0 is known.
        mode: ``"clip"`` brings indices into the axis, ``"wrap"`` counts around it, and ``"fast"``
            trusts them.
    """
    check = asks("take")
    check.one_of("mode", mode, ("clip", "wrap", "fast"))
    integer(0, 0)(check, "batch_dims", batch_dims)
    if not is_int(indices.dtype):
        check.refuse("indices", "a tensor of whole numbers", indices)
    shape = static_shape("take", "a", a, a.ndim)
    at = None if axis is None else normal_axis("take", axis, a.ndim)
    extent = prod(shape) if at is None else shape[at]

    def place(index: Expr) -> Expr:
        if mode == "wrap":
            return te.floormod(index, extent)
        return index if mode == "fast" else te.min(te.max(index, 0), extent - 1)

    def body(*i: Expr) -> Expr:
        if at is None:
            return a(*unravel_index(place(indices(*i)), shape))
        named = place(indices(*i[at : at + indices.ndim]))
        return a(*i[:at], named, *i[at + indices.ndim :])

    kept = ([], []) if at is None else ([*shape[:at]], [*shape[at + 1 :]])
    return _moved([*kept[0], *indices.shape, *kept[1]], body, "T_take")


@takes(a=tensor)
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
    shape = static_shape("strided_slice", "a", a, a.ndim)
    parts = [slice(None)] * a.ndim
    places = axes_of(asks("strided_slice"), "axes", named, a.ndim)
    for place, part in zip(places, _slices(len(places), begin, end, strides, mode), strict=False):
        parts[place] = part
    ranges = [range(*part.indices(n)) for part, n in zip(parts, shape, strict=True)]
    if not all(ranges):
        raise ExpressionError(
            f"strided_slice: begin and end must leave something, got {begin} and {end}: "
            f"nothing is left of {a.name}, shape {shape}"
        )

    def body(*i: Expr) -> Expr:
        return a(*[r.start + x * r.step for r, x in zip(ranges, i, strict=True)])

    return _moved([len(r) for r in ranges], body, "T_strided_slice")


def _slices(
    ndim: int, begin: Sequence[int], end: Sequence[int], strides: Sequence[int] | None, mode: str
) -> list[slice]:
    """Return what is taken of the ``ndim`` dimensions that are named; all of those left out."""
    check = asks("strided_slice")
    check.one_of("slice_mode", mode, ("end", "size"))
    first = _limits(check, "begin", begin, ndim)
    last = _limits(check, "end", end, ndim)
    steps = _limits(check, "strides", () if strides is None else strides, ndim)
    if 0 in steps:
        check.refuse("strides", "steps other than 0", strides)
    if mode == "end":
        return [slice(b, e, s) for b, e, s in zip(first, last, steps, strict=True)]
    # What reaches the end of a dimension from a negative index has no end, rather than 0.
    ends = [
        (b or 0) + n or None if n is not None and n >= 0 else None
        for b, n in zip(first, last, strict=True)
    ]
    return [slice(b, e) for b, e in zip(first, ends, strict=True)]


def _limits(check: Check, name: str, value: object, ndim: int) -> list[int | None]:
    """Return an index for each dimension, None where there is none."""
    given = check_list(check, name, value, "a list of whole numbers")
    if len(given) > ndim:
        check.refuse(name, f"at most {ndim} whole numbers", value)
    limits = [
        None if n is None else check.whole(f"{name}[{i}]", plain_integer(n))
        for i, n in enumerate(given)
    ]
    return limits + [None] * (ndim - len(limits))


@takes(transp_a=flag, transp_b=flag)
def matmul(a: Tensor, b: Tensor, transp_a: bool = False, transp_b: bool = False) -> Tensor:
    """Multiply two matrices, each of which may be stored transposed.

    `topi.nn.matmul` takes a bias and a dtype too.
    """
    names = ("a", "b")
    return multiply_matrices("matmul", names, a, b, transpose_a=transp_a, transpose_b=transp_b)


@takes(a=tensor)
def flip(a: Tensor, axis: int = 0) -> Tensor:
    """Reverse an axis."""
    at = normal_axis("flip", axis, a.ndim)
    last = get_const_tuple(a.shape)[at] - 1
    return _moved(a.shape, lambda *i: a(*i[:at], last - i[at], *i[at + 1 :]), "T_flip")


@takes(condition=tensor, x=tensor, y=tensor)
def where(condition: Tensor, x: Tensor, y: Tensor) -> Tensor:
    """Take elements of ``x`` where the condition holds, else of ``y``; one shape for all."""
    same_shape(asks("where"), "condition", condition, x.shape)
    same_shape(asks("where"), "y", y, x.shape)

    def body(*i: Expr) -> Expr:
        return te.Select(condition(*i) != 0, x(*i), y(*i))

    result: Tensor = te.compute(
        x.shape, body, "T_where", tag.BROADCAST, varargs_names=axis_names(x.ndim)
    )
    return result
