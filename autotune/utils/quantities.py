"""Measured quantities as people read them."""

from __future__ import annotations

# From this many of a unit on, the next one is used.
_STEP = 1000.0
_MINUTE_S, _HOUR_S = 60.0, 3600.0


def counted(number: int, noun: str) -> str:
    """Return a number of things: ``1 trial``, ``2 trials``."""
    return f"{number} {noun}" + ("" if number == 1 else "s")


def microseconds(seconds: float, spread: float | None = None) -> str:
    """Return a time of a kernel, ``12.35 us +- 1.2%``: always in one unit, so that times compare.

    Args:
        seconds: the time.
        spread: relative to it, where it is known.
    """
    value = seconds * 1e6
    digits = 3 if value < 10 else 2 if value < 1000 else 1
    return f"{value:.{digits}f} us" + ("" if spread is None else f" +- {spread:.1%}")


def flops_rate(per_second: float) -> str:
    """Return operations a second with one to three digits before the point: ``12.30 TFLOPS``."""
    prefixes = ["", "k", "M", "G", "T", "P"]
    while abs(per_second) >= _STEP and len(prefixes) > 1:
        per_second /= _STEP
        prefixes.pop(0)
    return f"{per_second:.2f} {prefixes[0]}FLOPS"


def energy_text(joules: float) -> str:
    """Return an energy with the unit that leaves one to three digits before the point."""
    for unit in ("J", "mJ", "uJ"):
        if joules >= 1 or unit == "uJ":
            break
        joules *= _STEP
    return f"{joules:.2f} {unit}"


def duration(seconds: float) -> str:
    """Return a time that people wait: ``0.8 s``, ``2 min 05 s``, ``1 h 02 min``."""
    if seconds < _MINUTE_S:
        return f"{seconds:.1f} s"
    whole = round(seconds)
    if whole < _HOUR_S:
        return f"{whole // 60} min {whole % 60:02d} s"
    return f"{whole // 3600} h {whole % 3600 // 60:02d} min"
