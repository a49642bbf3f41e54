"""Kernel Tuner's `util`: failures, and the best of results."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

__all__ = [
    "CompilationFailedConfig",
    "ErrorConfig",
    "InvalidConfig",
    "RuntimeFailedConfig",
    "get_best_config",
    "get_config_string",
]


class ErrorConfig(str):
    """What stands for the time of a configuration that failed."""

    __slots__ = ()


class InvalidConfig(ErrorConfig):
    """It cannot be launched on this device."""

    __slots__ = ()


class CompilationFailedConfig(ErrorConfig):
    """The compiler refused it."""

    __slots__ = ()


class RuntimeFailedConfig(ErrorConfig):
    """It failed when it ran, or its results were wrong."""

    __slots__ = ()


def get_config_string(
    params: Mapping[str, Any],
    keys: Iterable[str] | None = None,
    units: Mapping[str, str] | None = None,
) -> str:
    """Return a result in one line.

    Args:
        params: the result.
        keys: which of its items are shown; all by default.
        units: written behind values, by name.
    """
    units = {"time": "ms"} if units is None else units
    parts = []
    for name in params.keys() if keys is None else keys:
        if name in params:
            value = params[name]
            number = isinstance(value, float)
            text = f"{value:.3f}{units.get(name, '')}" if number else str(value)
            parts.append(f"{name}={text}")
    return ", ".join(parts)


def get_best_config(
    results: Sequence[Mapping[str, Any]],
    objective: str,
    objective_higher_is_better: bool = False,
) -> dict[str, Any]:
    """Return the best of results; an empty dict where all failed."""
    good = [each for each in results if isinstance(each.get(objective), int | float)]
    if not good:
        return {}
    choose = max if objective_higher_is_better else min
    return dict(choose(good, key=lambda each: each[objective]))
