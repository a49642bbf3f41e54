"""Results of another layout or dtype than the data's, and norms along any axis."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from autotune.errors import GraphError
from autotune.graph import Value, apply, ops
from autotune.tvm.relay.arguments import Numbers, check_values, whole_numbers
from autotune.tvm.relay.rearranged import picked
from autotune.tvm.relay.variable import OpenVar, settle
from autotune.utils.check import Check

# Ways to pad with elements of the data, by numpy's names.
_OF_DATA = ("edge", "reflect", "symmetric")


def settle_filters(
    data: Value,
    weight: Value,
    layouts: tuple[str, str],
    channels: int | None,
    kernel_size: Numbers | None,
    groups: int = 1,
) -> None:
    """Say the shape of a convolution's weight that was declared without one."""
    if not isinstance(weight, OpenVar) or channels is None or kernel_size is None:
        return
    images, filters = layouts
    letters = [letter for letter in filters if letter in "DHW"]
    window = whole_numbers("conv", "kernel_size", kernel_size)
    window = window * len(letters) if len(window) == 1 else window
    inputs = data.shape[images.index("C")] // max(groups, 1)
    extents = {**dict(zip(letters, window, strict=False)), "O": channels, "I": inputs}
    settle(weight, tuple(extents.get(letter, 1) for letter in filters), data.dtype)


def operands(op: str, out_dtype: str | None, **values: Value) -> list[Value]:
    """Return what is multiplied, converted to the dtype in which products are added up."""
    check_values(op, **values)
    if out_dtype in ("", None):
        return list(values.values())
    wanted = Check(GraphError, op).text("out_dtype", out_dtype, "float32")
    return [v if v.dtype == wanted else apply(ops.Cast(wanted), v) for v in values.values()]


def in_layout(op: str, value: Value, layout: str, out_layout: str | None) -> Value:
    """Return a result in the layout that is asked for."""
    if out_layout in ("", None, layout):
        return value
    if not isinstance(out_layout, str) or sorted(out_layout) != sorted(layout):
        expected = f"empty or a permutation of {layout}"
        Check(GraphError, op).refuse("out_layout", expected, out_layout)
    return apply(ops.Transpose(tuple(layout.index(letter) for letter in out_layout)), value)


def along_channels(op: str, data: Value, axis: int, norm: Callable[[Value], Value]) -> Value:
    """Apply a norm, whose channels are the second dimension, to those of any axis."""
    check_values(op, data=data)
    ndim = data.type.ndim
    at = Check(GraphError, op).whole("axis", axis, -ndim, ndim - 1) % ndim
    if at == 1:
        return norm(data)
    if at == 0:
        raise GraphError(f"{op}: axis must not be 0, that of images, got {axis!r}")
    order = (0, at, *(i for i in range(1, ndim) if i != at))
    back = tuple(order.index(i) for i in range(ndim))
    return apply(ops.Transpose(back), norm(apply(ops.Transpose(order), data)))


def padded_by_data(data: Value, pairs: Sequence[tuple[int, int]], mode: str) -> Value:
    """Surround a tensor with its own elements, as numpy does with this mode."""
    check = Check(GraphError, "nn.pad")
    check.one_of("pad_mode", mode, ("constant", *_OF_DATA))
    if len(pairs) != data.type.ndim:
        check.refuse("pad_width", f"a pair for each of {data.type.ndim} axes", pairs)
    for axis, pair in enumerate(pairs):
        if any(pair):
            whole_numbers("nn.pad", "pad_width", pair)
            places = np.arange(data.shape[axis])
            if mode == "reflect" and max(pair) >= len(places):
                expected = f"at most {len(places) - 1}, as the axis has {len(places)} elements"
                check.refuse("pad_width", expected, pair)
            data = picked(data, axis, np.pad(places, pair, mode=mode))  # type: ignore[call-overload]
    return data
