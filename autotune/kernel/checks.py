"""Checks of how a user describes a kernel."""

from __future__ import annotations

import math
import operator
from collections.abc import Iterable, Mapping, Sequence
from numbers import Number
from typing import Any

from autotune.errors import KernelError
from autotune.utils.check import Check

_DEFINE = (bool, int, float, str)
# What ends a line that goes on in the next.
_JOINS_LINES = ("\\", "??/", "\n", "\r")


def dtype_name(dtype: Any) -> Any:
    """Return the name of a dtype of numpy or torch, and anything else as it is."""
    if isinstance(dtype, str):
        return dtype
    if isinstance(dtype, type):  # such as numpy.float32
        return dtype.__name__
    text = str(dtype)
    return (
        text.removeprefix("torch.") if text.startswith("torch.") else getattr(dtype, "name", dtype)
    )


def shape_of(name: str, shape: Any) -> tuple[int, ...]:
    """Return a shape as a tuple of ints.

    Raises:
        KernelError: the value is not a shape.
    """
    expected = "a sequence of ints such as (1024,)"
    try:
        if not isinstance(shape, (tuple, list)) and isinstance(shape, Mapping):
            Check(KernelError, f"argument {name!r}").refuse("shape", expected, shape)
        return tuple([operator.index(n) for n in shape])
    except TypeError as error:
        raise KernelError(f"argument {name!r}: shape must be {expected}, got {shape!r}") from error


def extent3(check: Check, name: str, extent: object, least: int = 0) -> tuple[int, int, int]:
    """Pad a launch extent to three dimensions.

    Raises:
        KernelError: it is not an extent, or smaller than ``least``; the message names the owner of
            ``check``.
    """
    expected = "a launch extent: an int or up to three"
    extents: tuple[Any, ...]
    if type(extent) is tuple or type(extent) is int:  # as nearly always
        extents = extent if type(extent) is tuple else (extent,)
    elif isinstance(extent, (str, bytes, Mapping)):
        check.refuse(name, expected, extent)
    else:
        extents = tuple(extent) if isinstance(extent, Iterable) else (extent,)
    if not 1 <= len(extents) <= 3:
        check.refuse(name, f"{expected} (1 to 3 dimensions)", extent)
    try:
        sizes = tuple([operator.index(n) for n in extents])
    except TypeError:
        check.refuse(name, expected, extent, "; divide with //")
    if min(sizes) < least:
        check.refuse(name, f"at least {least} in each dimension", extent)
    x, y, z = (*sizes, 1, 1)[:3]
    return x, y, z


def define_line(check: Check, name: object, value: object) -> str:
    """Return one ``#define`` line; booleans become 0 and 1, as the preprocessor has no others.

    Raises:
        KernelError: the name is not an identifier, or the value is neither a finite number nor a
            text of one line; the message names the owner of ``check``.
    """
    if not isinstance(name, str) or not name.isidentifier():
        check.refuse("defines", "named by C identifiers", name)
    plain = value if isinstance(value, _DEFINE) else getattr(value, "item", lambda: value)()
    if not isinstance(plain, _DEFINE):
        plainly = getattr(type(value), "attribute", "")  # of a knob's value, as templates get it
        hint = f"; pass its .{plainly}" if isinstance(plainly, str) and plainly else ""
        check.refuse(f"defines: {name!r}", "a number, a bool or text", value, hint)
    if isinstance(plain, float) and not math.isfinite(plain):
        hint = "; the text 'INFINITY' or 'NAN' names one of math.h"
        check.refuse(f"defines: {name!r}", "a finite number, as C writes no others", plain, hint)
    # The preprocessor would take what follows a line break for further lines of the source.
    if isinstance(plain, str) and (len(plain.splitlines()) > 1 or plain.endswith(_JOINS_LINES)):
        check.refuse(f"defines: {name!r}", "one line of text", plain)
    return f"#define {name} {int(plain) if isinstance(plain, bool) else plain}\n"


def check_items(
    check: Check, name: str, items: Any, kind: type, expected: str, for_numbers: str = ""
) -> Sequence[Any]:
    """Check that a value is a list of things of one kind and return it.

    Args:
        check: of the owner, which the message names.
        name: of the parameter.
        items: what is checked.
        kind: of each item.
        expected: what the message says it must be.
        for_numbers: what the message adds where an item is a number.

    Raises:
        KernelError: it is not a list, or something in it is of another kind.
    """
    for one in check.sequence(name, items, expected):
        if not isinstance(one, kind):
            check.refuse(name, expected, one, for_numbers if isinstance(one, Number) else "")
    given: Sequence[object] = items
    return given
