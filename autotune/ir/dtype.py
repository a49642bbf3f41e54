"""Dtypes in the IR: their kinds, widths, lanes, ranges, and the common type of two.

A dtype is a string: an element dtype such as ``"float32"``, or with lanes, ``"float32x4"``.
"""

from __future__ import annotations

from functools import cache

from autotune.errors import ExpressionError

# name -> (kind, bits); the kinds are b(ool), i(nt), u(nsigned) and f(loat).
ELEMENTS = {
    "bool": ("b", 1),
    "int8": ("i", 8), "int16": ("i", 16), "int32": ("i", 32), "int64": ("i", 64),
    "uint8": ("u", 8), "uint16": ("u", 16), "uint32": ("u", 32), "uint64": ("u", 64),
    "float16": ("f", 16), "bfloat16": ("f", 16), "float32": ("f", 32), "float64": ("f", 64),
}  # fmt: skip

# Of variables of loops, and of what forms of indices compute with.
INDEX_DTYPE = "int32"

# TVM's names without a width, which stand for 32 bits.
SHORT_NAMES = {"float": "float32", "int": "int32", "uint": "uint32"}

FLOAT_LIMIT = {
    "float16": 65504.0,
    "bfloat16": 3.3895313892515355e38,
    "float32": 3.4028234663852886e38,
    "float64": 1.7976931348623157e308,
}


@cache
def split_lanes(dtype: str) -> tuple[str, int]:
    """Return the element dtype and the lanes: ``"float32x4"`` -> ``("float32", 4)``."""
    element, x, lanes = dtype.partition("x")
    if element not in ELEMENTS or (x and not (lanes.isdecimal() and int(lanes))):
        known = ", ".join(ELEMENTS)
        raise ExpressionError(f"dtype {dtype!r} is unknown; expected one of {known}")
    return element, int(lanes) if x else 1


def check_dtype(dtype: object) -> str:
    """Return the name of ``dtype`` (a string, or a numpy dtype); raise if it is unknown."""
    if isinstance(dtype, str):
        name = SHORT_NAMES.get(dtype, dtype)
    else:
        name = str(getattr(dtype, "__name__", dtype))
    split_lanes(name)
    return name


def lanes_of(dtype: str) -> int:
    """Return how many elements one value of ``dtype`` holds."""
    return split_lanes(dtype)[1]


def element_of(dtype: str) -> str:
    """Return ``dtype`` without its lanes."""
    return split_lanes(dtype)[0]


def with_lanes(dtype: str, lanes: int) -> str:
    """Return the element dtype of ``dtype`` with that many lanes."""
    return element_of(dtype) if lanes == 1 else f"{element_of(dtype)}x{lanes}"


@cache
def bool_like(dtype: str) -> str:
    """Return the dtype of a comparison of two values of ``dtype``."""
    return with_lanes("bool", lanes_of(dtype))


@cache
def is_float(dtype: str) -> bool:
    """Return whether the elements are floating-point numbers."""
    return ELEMENTS[element_of(dtype)][0] == "f"


@cache
def is_int(dtype: str) -> bool:
    """Return whether the elements are integers, signed or not (bool is none)."""
    return ELEMENTS[element_of(dtype)][0] in "iu"


@cache
def bits_of(dtype: str) -> int:
    """Return the width of one element in bits (1 for bool)."""
    return ELEMENTS[element_of(dtype)][1]


@cache
def int_range(dtype: str) -> tuple[int, int]:
    """Return the smallest and the largest value of an integer or bool dtype."""
    kind, bits = ELEMENTS[element_of(dtype)]
    if kind == "f":
        raise ExpressionError(f"dtype {dtype!r} holds no integers")
    return (-(1 << bits - 1), (1 << bits - 1) - 1) if kind == "i" else (0, (1 << bits) - 1)


@cache
def promote(a: str, b: str) -> str:
    """Return the dtype in which values of two scalar dtypes meet, by the rules of TVM.

    bool gives way to all, ints to floats, narrow to wide; of a signed and an unsigned int of equal
    width the unsigned one wins, as in C; float16 and bfloat16 meet in float32.
    """
    (kind_a, bits_a), (kind_b, bits_b) = ELEMENTS[element_of(a)], ELEMENTS[element_of(b)]
    if a == b or kind_b == "b":
        return a
    if kind_a == "b":
        return b
    if (kind_a == "f") != (kind_b == "f"):
        return a if kind_a == "f" else b
    if kind_a == "f" and bits_a == bits_b:
        return "float32"
    if bits_a != bits_b:
        return a if bits_a > bits_b else b
    return a if kind_a == "u" else b
