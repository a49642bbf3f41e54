"""Types of elements in arrays, and in which type kernels do arithmetic with them.

Floats of 16 and 32 bits are floats in kernels (``elements.h``); others are named by macros
(``stored_elements.h``).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from .rows_shape import DTYPES


@dataclass(frozen=True)
class Stored:
    """A type of elements.

    Attributes:
        bytes: of an element.
        name: the type in C.
        value: that in which arithmetic is.
        lowest, highest: the least and the greatest of its values, in C.
    """

    bytes: int
    name: str
    value: str = "int"
    lowest: str = "(-2147483647 - 1)"
    highest: str = "2147483647"


STORED: Mapping[str, Stored] = {
    "int8": Stored(1, "signed char"),
    "uint8": Stored(1, "unsigned char"),
    "int16": Stored(2, "short"),
    "int32": Stored(4, "int"),
    "int64": Stored(
        8, "long long", "long long", "(-9223372036854775807LL - 1)", "9223372036854775807LL"
    ),
    "float64": Stored(
        8,
        "double",
        "double",
        "__longlong_as_double(0xfff0000000000000LL)",
        "__longlong_as_double(0x7ff0000000000000LL)",
    ),
}
WHOLE = tuple(name for name in STORED if name != "float64")
BYTES: Mapping[str, int] = {**DTYPES, **{name: each.bytes for name, each in STORED.items()}}


def value_bytes(dtype: str) -> int:
    """Return the bytes of a value in arithmetic: four, or as many as an element of eight has."""
    return max(4, BYTES[dtype])


def value_dtype(dtype: str) -> str:
    """Return the type of values in arithmetic as numpy names it."""
    if dtype in DTYPES:
        return "float32"
    return dtype if BYTES[dtype] == 8 else "int32"


def elements_text(dtype: str) -> str:
    """Return the file of the kernels folder that loads and stores elements of a type."""
    return "stored_elements.h" if dtype in STORED else "elements.h"


def defines(dtype: str) -> dict[str, int | str]:
    """Return the macros that name a type."""
    if dtype not in STORED:
        return {"ELEMENT": list(DTYPES).index(dtype)}
    kind = STORED[dtype]
    return {
        "STORED": kind.name, "VALUE": kind.value, "LOWEST": kind.lowest, "HIGHEST": kind.highest,
    }  # fmt: skip
