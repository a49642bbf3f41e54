"""Numbers that are passed by value: which ones fit which dtype."""

from __future__ import annotations

import math
import operator
from typing import Any

from autotune.errors import KernelError
from autotune.utils.check import shown

ScalarValue = bool | int | float

_LARGEST = {"float16": 65504.0, "bfloat16": 3.3895314e38, "float32": 3.4028235e38}


def scalar_value(where: str, dtype: str, value: Any) -> ScalarValue:
    """Return a number as Python's own, if a scalar of ``dtype`` can hold it.

    Args:
        where: the caller, for the message.
        dtype: dtype of the scalar.
        value: a number of Python or numpy, or any array of shape ().

    Raises:
        KernelError: the value is not a single number, is too large, or is not whole although
            ``dtype`` is an integer.
    """
    if isinstance(value, (str, bytes)) or tuple(getattr(value, "shape", ())) != ():
        raise KernelError(f"{where}: expected one number ({dtype}), got {_describe(value)}")
    plain = value.item() if hasattr(value, "item") else value
    try:
        number = float(plain) if "float" in dtype else operator.index(plain)
    except (TypeError, ValueError, OverflowError) as error:
        raise KernelError(f"{where}: expected {dtype}, got {_describe(value)}") from error
    if isinstance(number, float):
        if math.isfinite(number) and abs(number) > _LARGEST.get(dtype, math.inf):
            raise KernelError(f"{where}: expected a number that fits {dtype}, got {number}")
        return number
    least, most = _range(dtype)
    if not least <= number <= most:
        raise KernelError(f"{where}: expected {dtype} ({least} to {most}), got {shown(number)}")
    return bool(number) if dtype == "bool" else number


def _range(dtype: str) -> tuple[int, int]:
    if dtype == "bool":
        return 0, 1
    bits = int(dtype.lstrip("uint"))
    return (0, 2**bits - 1) if dtype.startswith("u") else (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1)


def _describe(value: object) -> str:
    shape = getattr(value, "shape", None)
    kind = type(value).__name__
    return f"{kind} of shape {tuple(shape)}" if shape else f"{shown(value)} ({kind})"
