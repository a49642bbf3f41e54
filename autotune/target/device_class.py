"""Device classes: names of devices whose times may be compared."""

from __future__ import annotations

import re

from autotune.target.backends import BY_KIND
from autotune.target.target import Target

_FORM = re.compile(r".+ \((\w+)\)")


def device_class(target: Target, index: int = 0) -> str | None:
    """Return the class of the present device for a target, such as ``"NVIDIA H200 (sm_90)"``.

    None for the CPU, as kernels are compiled on each host, and if there is no device.
    """
    if target.kind not in BY_KIND or target.backend.device == "cpu":
        return None
    facts = target.backend.query(index)
    return None if facts is None else f"{facts.name} ({facts.arch})"


def arch_of_class(name: str | None) -> str | None:
    """Return the architecture of a class; None of anything else."""
    match = _FORM.fullmatch(name or "")
    return match[1] if match else None


def arch_here(target: Target) -> str | None:
    """Return the architecture of a target: the one it names, or that of the device here."""
    if "arch" in target.attrs:
        return target.arch
    return arch_of_class(device_class(target))
