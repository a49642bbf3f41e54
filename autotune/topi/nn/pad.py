"""Padding: of a tensor, and the ways to write it down."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from autotune import te
from autotune.errors import ExpressionError
from autotune.te.tensor import Tensor
from autotune.topi import tag
from autotune.topi.utils import get_const_int, get_const_tuple

Padding = int | str | Sequence[int]


def pad(
    data: Tensor,
    pad_before: Sequence[int],
    pad_after: Sequence[int] | None = None,
    pad_value: Any = 0.0,
    name: str = "PadInput",
) -> Tensor:
    """Surround a tensor with a value.

    Args:
        data: the tensor.
        pad_before: elements before it, for each dimension.
        pad_after: elements after it; as before, when not given.
        pad_value: a number or an expression.
        name: name of the result.
    """
    before = get_const_tuple(pad_before)
    after = before if pad_after is None else get_const_tuple(pad_after)
    if len(before) != data.ndim or len(after) != data.ndim:
        raise ExpressionError(
            f"pad: {data.name} has {data.ndim} dimensions, got {len(before)} paddings before and "
            f"{len(after)} after"
        )
    shape = [n + b + a for n, b, a in zip(data.shape, before, after, strict=True)]
    value = te.const(pad_value, data.dtype) if isinstance(pad_value, int | float) else pad_value

    def body(*i: Any) -> Any:
        inside: list[Any] = []
        for k, index in enumerate(i):
            if before[k]:
                inside.append(index >= before[k])
            if after[k]:
                inside.append(index < data.shape[k] + before[k])
        element = data(*[x - b if b else x for x, b in zip(i, before, strict=True)])
        return te.if_then_else(te.all(*inside), element, value) if inside else element

    result: Tensor = te.compute(shape, body, name, f"{tag.INJECTIVE},pad")
    return result


def get_pad_tuple(padding: Padding, kernel: Sequence[Any]) -> tuple[int, int, int, int]:
    """Return a two-dimensional padding as (top, left, bottom, right).

    Args:
        padding: an int for all sides; (vertical, horizontal); all four in the order of the
            result; ``"VALID"``, no padding; or ``"SAME"``, the output as large as the input when
            the stride is 1.
        kernel: extents of the filter, dilation included.
    """
    if isinstance(padding, str):
        return _named_padding(padding, kernel)
    if isinstance(padding, int):
        return padding, padding, padding, padding
    sides = [get_const_int(p) for p in padding]
    if len(sides) == 2:
        return sides[0], sides[1], sides[0], sides[1]
    if len(sides) == 4:
        return sides[0], sides[1], sides[2], sides[3]
    raise ExpressionError(f"padding must be an int, 2 or 4 ints, 'SAME' or 'VALID', got {padding}")


def _named_padding(padding: str, kernel: Sequence[Any]) -> tuple[int, int, int, int]:
    if padding == "VALID":
        return 0, 0, 0, 0
    if padding != "SAME":
        raise ExpressionError(f"padding must be 'SAME' or 'VALID' or ints, got {padding!r}")
    height, width = (get_const_int(n) - 1 for n in kernel)
    top, left = (height + 1) // 2, (width + 1) // 2
    return top, left, height - top, width - left
