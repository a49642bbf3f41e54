"""Exact arithmetic in numpy, in which a value of any dtype is what it is in C.

Integers are those of Python, and floats are float64. Integers of 32 and 64 bits stay in their
range, narrower and unsigned ones wrap, and floats are small multiples of 1/16; else a value is
undefined.
"""

import operator

import ml_dtypes
import numpy as np

SIGNED = ("int8", "int16", "int32", "int64")
UNSIGNED = ("uint8", "uint16", "uint32", "uint64")
FLOATS = ("float32", "float64", "float16", "bfloat16")
DTYPES = (*SIGNED, *UNSIGNED, *FLOATS, "bool")


class Undefined(Exception):
    """The value of a program is not the same everywhere."""


def numpy_type(dtype):
    return ml_dtypes.bfloat16 if dtype == "bfloat16" else np.dtype(dtype)


def kept(value, dtype):
    """Return an exact value as one of a dtype, which 16-bit floats keep in float32."""
    if dtype == "bool":
        return value.astype(bool)
    if dtype in FLOATS:
        finite = value[np.isfinite(value)]
        narrow = finite.astype(numpy_type(dtype)).astype("f8")
        if (narrow != finite).any() or (abs(finite) > 1 << 16).any() or (finite * 16 % 1).any():
            raise Undefined
        return value.astype("f8")
    if dtype in ("int32", "int64"):
        bits = 8 * np.dtype(dtype).itemsize - 1
        if any(not -(1 << bits) <= v < 1 << bits for v in value.ravel()):
            raise Undefined
        return value
    bits = np.dtype(dtype).itemsize * 8
    low = -(1 << bits - 1) if dtype in SIGNED else 0
    return (value - low) % (1 << bits) + low


def check_parts(array, along, dtype):
    """Raise unless the sum of any of the terms along some axes is a number of a float."""
    total = kept(np.abs(array).sum(axis=along), dtype)
    finite = array[np.isfinite(array)]
    unit = next(
        u for u in (1, 1 / 2, 1 / 4, 1 / 8, 1 / 16) if u == 1 / 16 or not (finite % u).any()
    )
    most = unit * 2 / float(ml_dtypes.finfo(numpy_type(dtype)).eps)
    if (total[np.isfinite(total)] > most).any():
        raise Undefined


def exact(array, dtype):
    """Return an array in which numpy computes exactly: of Python's integers, or float64."""
    if dtype == "bool":
        return array
    return (
        array.astype("f8")
        if dtype in FLOATS
        else array.astype("i8" if dtype != "uint64" else "u8").astype(object)
    )


class Divisions:
    floordiv, floormod = operator.floordiv, operator.mod

    @staticmethod
    def truncdiv(a, b):
        return abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1)

    @staticmethod
    def truncmod(a, b):
        return a - b * Divisions.truncdiv(a, b)


def shifted(apply, value, by, dtype):
    if apply is operator.lshift and dtype in SIGNED and (value < 0).any():
        raise Undefined
    return apply(value, by)


def whole(value, dtype):
    number = np.trunc(value)
    if not np.isfinite(number).all():
        raise Undefined
    number = number.astype("i8").astype(object)
    if dtype not in ("int32", "int64") and (kept(number, dtype) != number).any():
        raise Undefined
    return number


def wrapped(value, dtype):
    if dtype == "int32":
        return (value + (1 << 31)) % (1 << 32) - (1 << 31)
    if dtype == "int64":
        return (value + (1 << 63)) % (1 << 64) - (1 << 63)
    return value
