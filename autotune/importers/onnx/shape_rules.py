"""What ONNX says of shapes, for operators on known numbers and on values of a graph alike."""

from __future__ import annotations

import math
from collections.abc import Sequence

from autotune.importers.onnx.call import Call

Shape = tuple[int, ...]
# Most elements that are made of a shape while a model is read: a gigabyte of float32.
_MOST = 2**28


def of_some_size(call: Call, shape: Sequence[int]) -> Shape:
    """Return a shape, unless a tensor of it would fill the memory."""
    if min(shape, default=0) < 0 or math.prod(shape) > _MOST:
        call.refuse(f"at most {_MOST} elements are made while a model is read, got {list(shape)}")
    return tuple(shape)


def new_shape(call: Call, old: Shape) -> Shape:
    """Return the shape that Reshape gives: 0 keeps an extent, one -1 is the rest."""
    wanted = list(call.whole(1, "shape") if call.opset >= 5 else call.ints("shape") or ())
    if not call.attribute("allowzero", 0):
        if any(n == 0 and i >= len(old) for i, n in enumerate(wanted)):
            call.refuse(f"shape {wanted} keeps an extent that {old} does not have")
        wanted = [old[i] if n == 0 else n for i, n in enumerate(wanted)]
    if wanted.count(-1) == 1:
        rest = math.prod([n for n in wanted if n != -1])
        wanted[wanted.index(-1)] = math.prod(old) // rest if rest else 0
    if math.prod(wanted) != math.prod(old) or min(wanted, default=0) < 0:
        call.refuse(f"shape must have as many elements as {old}, got {wanted}")
    return tuple(wanted)


def reduced_axes(call: Call, ndim: int, since: int) -> tuple[int, ...]:
    """Return the axes of a reduction; none where the data stays as it is."""
    axes = call.ints_of("axes", since)
    if not axes:
        return () if call.attribute("noop_with_empty_axes", 0) else tuple(range(ndim))
    return tuple(sorted({call.axis(axis, ndim) for axis in axes}))


def split_sizes(call: Call, extent: int) -> list[int]:
    """Return the sizes of the parts of Split."""
    given = call.ints_of("split", 13)
    if given is None:
        parts = len(call.node.outputs)
        count = call.attribute("num_outputs", parts)
        if count != parts:
            call.refuse(f"num_outputs must be {parts}, as there are outputs, got {count}")
        size = -(-extent // count)
        given = tuple([min(size, extent - i * size) for i in range(count)])
    if sum(given) != extent or min(given) < 0:
        call.refuse(f"parts must make up an axis of {extent}, got {list(given)}")
    return list(given)


def concrete_slices(call: Call, shape: Sequence[int]) -> tuple[slice, ...]:
    """Return the slices of all axes."""
    if call.opset < 10:
        starts, ends = call.ints("starts") or (), call.ints("ends") or ()
        axes, steps = call.ints("axes"), None
    else:
        starts, ends = call.whole(1, "starts"), call.whole(2, "ends")
        axes = call.whole(3, "axes") if call.has(3) else None
        steps = call.whole(4, "steps") if call.has(4) else None
    axes = tuple(range(len(starts))) if axes is None else axes
    slices = [slice(0, n, 1) for n in shape]
    for axis, start, end, step in zip(axes, starts, ends, steps or (1,) * len(axes), strict=True):
        if step == 0:
            call.refuse("steps must not be 0")
        at = call.axis(axis, len(shape))
        # Ends before the first element are beyond it: numpy would count them from the back.
        first, last, step = slice(start, end, step).indices(shape[at])
        slices[at] = slice(first, None if last < 0 else last, step)
    return tuple(slices)
