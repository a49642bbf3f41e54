"""SI prefixes for rates and durations."""

from __future__ import annotations

# Powers of ten; "m" is milli and " " is no prefix, as AutoTVM's `si_prefix` arguments expect.
SI_PREFIXES = {
    "y": -24, "z": -21, "a": -18, "f": -15, "p": -12, "n": -9, "u": -6, "\xb5": -6, "m": -3,
    " ": 0, "": 0, "k": 3, "M": 6, "G": 9, "T": 12, "P": 15, "E": 18, "Z": 21, "Y": 24,
}  # fmt: skip


def scale(value: float, prefix: str) -> float:
    """Return ``value`` expressed in units of ``prefix``: ``scale(2e9, "G") == 2.0``.

    Raises:
        ValueError: the prefix is not one of the SI prefixes.
    """
    if not isinstance(prefix, str) or prefix not in SI_PREFIXES:
        known = " ".join(sorted(p for p in SI_PREFIXES if p.strip()))
        raise ValueError(f"si_prefix: expected one of {known}, got {prefix!r}")
    return float(value * 10.0 ** -SI_PREFIXES[prefix])
