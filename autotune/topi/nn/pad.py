"""Padding of tensors, and the forms in which it may be given."""

from __future__ import annotations

from collections.abc import Sequence
from numbers import Integral

from autotune import te
from autotune.ir import Expr
from autotune.te.tensor import Tensor
from autotune.topi import tag
from autotune.topi.arguments import (
    asks,
    integers,
    optional,
    pair,
    plain_integer,
    takes,
    tensor,
    text,
    value_of_element,
)
from autotune.topi.utils import axis_names
from autotune.utils.check import Check, is_whole

Padding = int | str | Sequence[int]
_PADDING = "a whole number of at least 0, 2 or 4 of them, 'SAME' or 'VALID'"


@takes(
    data=tensor,
    pad_before=integers(0),
    pad_after=optional(integers(0)),
    pad_value=value_of_element,
    name=text,
)
def pad(
    data: Tensor,
    pad_before: Sequence[int],
    pad_after: Sequence[int] | None = None,
    pad_value: Expr | float = 0.0,
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
    before, after = pad_before, pad_before if pad_after is None else pad_after
    for side, given in (("pad_before", before), ("pad_after", after)):
        if len(given) != data.ndim:
            asks("pad").refuse(side, f"{data.ndim} paddings, one for each dimension", given)
    return pad_axes(data, before, after, pad_value, name, axis_names(data.ndim, "i"))


def pad_axes(
    data: Tensor,
    before: Sequence[int],
    after: Sequence[int],
    pad_value: object,
    name: str,
    axes: list[str],
) -> Tensor:
    """Do what `pad` does, with the given names for its axes."""
    shape = [n + b + a for n, b, a in zip(data.shape, before, after, strict=True)]
    value = te.const(pad_value, data.dtype) if isinstance(pad_value, int | float) else pad_value

    def body(*i: Expr) -> Expr:
        inside: list[Expr] = []
        for k, index in enumerate(i):
            if before[k]:
                inside.append(index >= before[k])
            if after[k]:
                inside.append(index < data.shape[k] + before[k])
        element = data(*[x - b if b else x for x, b in zip(i, before, strict=True)])
        return te.if_then_else(te.all(*inside), element, value) if inside else element

    result: Tensor = te.compute(shape, body, name, f"{tag.INJECTIVE},pad", varargs_names=axes)
    return result


def get_pad_tuple(
    padding: Padding, kernel: Sequence[object], owner: str = "get_pad_tuple"
) -> tuple[int, int, int, int]:
    """Return a two-dimensional padding as (top, left, bottom, right).

    Args:
        padding: an int for all sides; (vertical, horizontal); all four in the order of the
            result; ``"VALID"``, no padding; or ``"SAME"``, the output as large as the input when
            the stride is 1.
        kernel: extents of the filter, dilation included.
        owner: who asks, for messages.
    """
    check = asks(owner)
    if isinstance(padding, str) and padding == "VALID":
        return 0, 0, 0, 0
    if isinstance(padding, str) and padding == "SAME":
        return _same(check, kernel)
    given = (padding,) if isinstance(padding, str | int) else padding
    plain = [plain_integer(each) for each in (given if isinstance(given, Sequence) else (given,))]
    sides = [int(n) for n in plain if isinstance(n, Integral) and is_whole(n, 0)]
    if len(sides) not in (1, 2, 4) or len(sides) < len(plain):
        check.refuse("padding", _PADDING, padding)
    top, left, bottom, right = sides * (4 // len(sides))
    return top, left, bottom, right


def get_pad_tuple1d(padding: Padding, kernel: Sequence[object]) -> tuple[int, int]:
    """Return a one-dimensional padding as (left, right).

    Args:
        padding: an int for both sides; both; ``"VALID"``, no padding; or ``"SAME"``, the output
            as large as the input when the stride is 1.
        kernel: extent of the filter, dilation included, in a list.
    """
    left, right = _sides("get_pad_tuple1d", padding, kernel, 1)
    return left, right


def get_pad_tuple3d(
    padding: Padding, kernel: Sequence[object]
) -> tuple[int, int, int, int, int, int]:
    """Return a three-dimensional padding as (front, top, left, back, bottom, right).

    Args:
        padding: an int for all sides; (depth, vertical, horizontal); all six in the order of the
            result; ``"VALID"``, no padding; or ``"SAME"``, the output as large as the input when
            the stride is 1.
        kernel: extents of the filter, dilation included.
    """
    front, top, left, back, bottom, right = _sides("get_pad_tuple3d", padding, kernel, 3)
    return front, top, left, back, bottom, right


def _sides(owner: str, padding: Padding, kernel: Sequence[object], ndim: int) -> list[int]:
    """Return a padding as those before each of ``ndim`` dimensions, and those after each."""
    check = asks(owner)
    if isinstance(padding, str):
        check.one_of("padding", padding, ("VALID", "SAME"))
        sizes = check.sequence("kernel", kernel, f"{ndim} extents")
        both = [int(plain_integer(n)) - 1 if padding == "SAME" else 0 for n in sizes]  # type: ignore[call-overload]
        before = [(n + 1) // 2 for n in both]
        sides = [*before, *(n - b for n, b in zip(both, before, strict=True))]
    else:
        sides = integers(0)(check, "padding", [padding] if isinstance(padding, int) else padding)
    counts = sorted({1, ndim, 2 * ndim})
    if len(sides) not in counts:
        ways = f"{', '.join(map(str, counts[:-1]))} or {counts[-1]}"
        check.refuse("padding", f"{ways} of them, 'SAME' or 'VALID'", padding)
    return list(sides) * (2 * ndim // len(sides))


def _same(check: Check, kernel: Sequence[object]) -> tuple[int, int, int, int]:
    rows, columns = pair()(check, "kernel", kernel)
    top, left = rows // 2, columns // 2
    return top, left, rows - 1 - top, columns - 1 - left
