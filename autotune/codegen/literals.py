"""Constants as C literals."""

from __future__ import annotations

import math
import struct
from functools import lru_cache


def float_text(value: float, single: bool) -> str:
    """Return the shortest literal that reads back as the same finite float."""
    return _float_text(repr(value), single)  # 0.0 and -0.0 are one key of a cache


@lru_cache(maxsize=4096)
def _float_text(text: str, single: bool) -> str:
    if single:
        value = float(text)
        nearest = _as_single(value)
        text = next(
            t for t in (f"{value:.{n}g}" for n in range(1, 18)) if _as_single(float(t)) == nearest
        )
    if not any(c in text for c in ".e"):
        text += ".0"
    return text + ("f" if single else "")


def _as_single(value: float) -> float:
    """Round to float32; what is too large becomes infinite."""
    try:
        return float(struct.unpack("f", struct.pack("f", value))[0])
    except OverflowError:
        return math.copysign(math.inf, value)


def int_text(value: int, dtype: str) -> str:
    """Return an integer constant of a dtype."""
    if dtype == "bool":
        return "true" if value else "false"
    if dtype == "uint64":
        return f"{value}ull"
    if dtype.startswith("uint"):
        return f"{value}u"
    if dtype == "int64":
        return f"{value}ll" if value != -(1 << 63) else f"({value + 1}ll - 1)"
    return str(value) if value != -(1 << 31) else f"({value + 1} - 1)"
