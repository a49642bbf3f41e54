"""Operators that move elements: views, slices, joins, padding."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from autotune.graph import Node, Value, ops
from autotune.importers.pytorch.call import Call, converts


@converts(
    "view.default", "_unsafe_view", "reshape", "flatten", "unflatten", "squeeze", "unsqueeze",
    "view_copy.default", "squeeze_copy", "unsqueeze_copy", "_reshape_alias", "ravel", "view_as",
    "reshape_as",
)  # fmt: skip
def reshape(call: Call, x: Value, *_: object) -> Value:
    """Give the elements another shape: torch has worked it out."""
    return call.reshape(x, call.type.shape)


@converts("permute", "permute_copy")
def permute(call: Call, x: Value, dims: Sequence[int]) -> Value:
    """Permute dimensions."""
    return call.transpose(x, dims)


@converts("transpose.int", "swapaxes", "swapdims", "transpose_copy")
def transpose(call: Call, x: Value, first: int, second: int) -> Value:
    """Exchange two dimensions."""
    if not x.shape:
        return x
    axes = list(range(x.type.ndim))
    axes[first], axes[second] = axes[second], axes[first]
    return call.transpose(x, axes)


@converts("t", "numpy_T", "mT", "t_copy")
def transposed(call: Call, x: Value) -> Value:
    """Exchange the last two dimensions."""
    return transpose(call, x, -1, -2) if x.type.ndim > 1 else x


@converts("movedim")
def move(call: Call, x: Value, source: Sequence[int] | int, to: Sequence[int] | int) -> Value:
    """Move dimensions to other places."""
    return call.transpose(x, _moved(x.type.ndim, source, to))


def _moved(rank: int, source: Sequence[int] | int, to: Sequence[int] | int) -> list[int]:
    """Return the order of dimensions after some have moved."""
    sources = [i % rank for i in ((source,) if isinstance(source, int) else source)]
    places = [i % rank for i in ((to,) if isinstance(to, int) else to)]
    order = [i for i in range(rank) if i not in sources]
    for place, axis in sorted(zip(places, sources, strict=True)):
        order.insert(place, axis)
    return order


@converts("expand", "expand_copy", "expand_as", "broadcast_to")
def expand(call: Call, x: Value, *_: object) -> Value:
    """Repeat along dimensions of extent 1."""
    return call.expand(x, call.type.shape)


@converts("repeat", "tile")
def repeat(call: Call, x: Value, repeats: Sequence[int]) -> Value:
    """Repeat a tensor along its dimensions."""
    shape = (*(1,) * (len(repeats) - x.type.ndim), *x.shape)
    times = (*(1,) * (len(shape) - len(repeats)), *repeats)
    apart = [each for n in shape for each in (1, n)]
    wide = [each for n, count in zip(shape, times, strict=True) for each in (count, n)]
    repeated = call.expand(call.reshape(x, apart), wide)
    return call.reshape(repeated, call.type.shape)


@converts("repeat_interleave.self_int")
def repeat_each(
    call: Call, x: Value, repeats: int, dim: int | None = None, output_size: int | None = None
) -> Value:
    """Repeat each element along an axis."""
    if dim is None:
        x, dim = call.reshape(x, (x.type.size,)), 0
    at = dim % x.type.ndim
    shape = x.shape[: at + 1], x.shape[at + 1 :]
    wide = call.expand(call.reshape(x, (*shape[0], 1, *shape[1])), (*shape[0], repeats, *shape[1]))
    return call.reshape(wide, call.type.shape)


@converts("select.int", "select_copy")
def select(call: Call, x: Value, dim: int, index: int) -> Value:
    """Take one index of an axis."""
    at = dim % x.type.ndim
    begin = index % x.shape[at]
    return call.reshape(call.slice(x, at, begin, begin + 1), call.type.shape)


@converts("slice.Tensor", "slice_copy")
def slice_of(
    call: Call, x: Value, dim: int = 0, start: int | None = None, end: int | None = None,
    step: int = 1,
) -> Value:  # fmt: skip
    """Take a part of an axis."""
    at = dim % x.type.ndim
    begin, stop, by = slice(start, end, step).indices(x.shape[at])
    return call.slice(x, at, begin, stop, by)


@converts("slice_scatter")
def slice_written(
    call: Call, x: Value, source: Value | None, dim: int = 0, start: int | None = None,
    end: int | None = None, step: int = 1,
) -> Value:  # fmt: skip
    """Write a part of an axis; nothing where the part, which is None then, has no elements."""
    if source is None:
        return x
    at = dim % x.type.ndim
    begin, _, by = slice(start, end, step).indices(x.shape[at])
    return call.write_slice(x, call.cast(source, x.dtype), at, begin, by)


@converts("select_scatter")
def selected_written(call: Call, x: Value, source: Value, dim: int, index: int) -> Value:
    """Write one index of an axis."""
    at = dim % x.type.ndim
    row = call.reshape(call.cast(source, x.dtype), (*x.shape[:at], 1, *x.shape[at + 1 :]))
    return call.write_slice(x, row, at, index % x.shape[at])


@converts("narrow")
def narrow(call: Call, x: Value, dim: int, start: int, length: int) -> Value:
    """Take a part of an axis, of a length."""
    return slice_of(call, x, dim, start, start + length)


@converts("cat", "concat", "concatenate")
def concatenate(call: Call, tensors: Sequence[Value | None], dim: int = 0) -> Value:
    """Join tensors, of which those without elements are None."""
    some = [each for each in tensors if each is not None]
    return call.concatenate([call.cast(each, call.type.dtype) for each in some], dim)


@converts("stack")
def stack(call: Call, tensors: Sequence[Value], dim: int = 0) -> Value:
    """Join tensors along a new axis."""
    return call.apply(ops.Stack(dim), *[call.cast(each, call.type.dtype) for each in tensors])


@converts(
    "split", "split_with_sizes", "chunk", "tensor_split", "unsafe_split", "unsafe_chunk",
    "split_copy", "split_with_sizes_copy",
)  # fmt: skip
def split(call: Call, x: Value, _: object, dim: int = 0) -> list[Value]:
    """Cut a tensor into parts: torch has worked out which."""
    at = dim % x.type.ndim
    extents = [each.shape[at] for each in call.types]
    if len(extents) > 1 and len(set(extents)) == 1:
        return list(_equal_parts(call, x, at, len(extents)))
    ends = [sum(extents[: i + 1]) for i in range(len(extents))]
    return [
        call.slice(x, at, end - extent, end) for end, extent in zip(ends, extents, strict=True)
    ]


def _equal_parts(call: Call, x: Value, axis: int, count: int) -> Sequence[Value]:
    return Node(ops.Split(count, axis), (x,), call.origin).outputs


@converts("unbind", "unbind_copy")
def unbind(call: Call, x: Value, dim: int = 0) -> list[Value]:
    """Return the parts of an axis, each without it."""
    at = dim % x.type.ndim
    return [
        call.reshape(call.slice(x, at, i, i + 1), each.shape) for i, each in enumerate(call.types)
    ]


@converts("constant_pad_nd")
def constant_pad(call: Call, x: Value, pad: Sequence[int], value: float = 0) -> Value:
    """Surround with a number; negative numbers cut off."""
    sides = [(0, 0)] * x.type.ndim
    for i in range(len(pad) // 2):
        sides[-1 - i] = (pad[2 * i], pad[2 * i + 1])
    for axis, (before, after) in enumerate(sides):
        extent = x.shape[axis]
        x = call.slice(x, axis, max(-before, 0), extent - max(-after, 0))
    widths = tuple((max(before, 0), max(after, 0)) for before, after in sides)
    if not any(map(any, widths)):
        return x
    return call.apply(ops.Pad(widths, float(value)), x)


@converts("pad")
def pad(
    call: Call, x: Value, pad: Sequence[int], mode: str = "constant", value: float | None = None
) -> Value:
    """Surround with a number, or with elements of the tensor."""
    if mode == "constant":
        return constant_pad(call, x, pad, value or 0)
    name = {"reflect": "reflect", "replicate": "edge", "circular": "wrap"}[mode]
    for i in range(len(pad) // 2):
        axis = x.type.ndim - 1 - i
        places = np.arange(x.shape[axis])
        before, after = pad[2 * i], pad[2 * i + 1]
        around = (max(before, 0), max(after, 0))
        found = np.pad(places, around, mode=name)  # type: ignore[call-overload]
        found = found[max(-before, 0) : len(found) - max(-after, 0)]
        x = x if not (before or after) else call.take(x, axis, found)
    return x


@converts("roll")
def roll(
    call: Call, x: Value, shifts: Sequence[int] | int, dims: Sequence[int] | int = ()
) -> Value:
    """Move elements along axes; those that leave at the end come in at the beginning."""
    every = [shifts] if isinstance(shifts, int) else list(shifts)
    axes = [dims] if isinstance(dims, int) else list(dims)
    shape = x.shape
    if not axes:
        x, axes = call.reshape(x, (x.type.size,)), [0]
    for shift, axis in zip(every, axes, strict=True):
        at = axis % x.type.ndim
        extent = x.shape[at]
        cut = extent - shift % extent
        if cut != extent:
            x = call.concatenate([call.slice(x, at, cut, extent), call.slice(x, at, 0, cut)], at)
    return call.reshape(x, shape)


@converts("flip")
def flip(call: Call, x: Value, dims: Sequence[int]) -> Value:
    """Turn axes around."""
    for dim in dims:
        x = call.take(x, dim % x.type.ndim, np.arange(x.shape[dim])[::-1])
    return x


@converts("pixel_shuffle")
def pixel_shuffle(call: Call, x: Value, factor: int) -> Value:
    """Spread channels over pixels."""
    *lead, channels, height, width = x.shape
    rest = len(lead)
    apart = call.reshape(x, (*lead, channels // factor**2, factor, factor, height, width))
    order = (*range(rest + 1), rest + 3, rest + 1, rest + 4, rest + 2)
    return call.reshape(call.transpose(apart, order), call.type.shape)


@converts("pixel_unshuffle")
def pixel_unshuffle(call: Call, x: Value, factor: int) -> Value:
    """Gather pixels into channels."""
    *lead, channels, height, width = x.shape
    rest = len(lead)
    parts = (*lead, channels, height // factor, factor, width // factor, factor)
    order = (*range(rest + 1), rest + 2, rest + 4, rest + 1, rest + 3)
    return call.reshape(call.transpose(call.reshape(x, parts), order), call.type.shape)


@converts("channel_shuffle")
def channel_shuffle(call: Call, x: Value, groups: int) -> Value:
    """Exchange channels among groups."""
    images, channels, *rest = x.shape
    apart = call.reshape(x, (images, groups, channels // groups, math.prod(rest)))
    return call.reshape(call.transpose(apart, (0, 2, 1, 3)), x.shape)


@converts("tril", "triu")
def triangle(call: Call, x: Value, diagonal: int = 0) -> Value:
    """Clear what is above or below a diagonal."""
    make = np.tril if "tril" in call.name else np.triu
    mask = make(np.ones(x.shape[-2:], "bool"), diagonal)
    if x.dtype == "bool":
        wide = call.expand(call.constant(mask), x.shape)
        return call.apply(ops.Where(), wide, x, call.expand(call.constant(False), x.shape))
    zero = call.expand(call.constant(0, x.dtype), x.shape)
    return call.apply(ops.Where(), call.expand(call.constant(mask), x.shape), x, zero)
