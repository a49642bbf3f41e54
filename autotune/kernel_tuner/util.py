"""Kernel Tuner's `util`: failures, the best of results, and caches as JSON."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np

from autotune.interchange import ForeignFileError, read_cache_file
from autotune.utils.files import publish

__all__ = [
    "CompilationFailedConfig",
    "ErrorConfig",
    "InvalidConfig",
    "RuntimeFailedConfig",
    "close_cache",
    "get_best_config",
    "get_config_string",
    "read_cache",
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


def is_number(value: object) -> bool:
    """Return whether a value is a finite number, of Python or numpy."""
    return isinstance(value, int | float | np.number) and bool(np.isfinite(value))


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
    good = [each for each in results if is_number(each.get(objective))]
    if not good:
        return {}
    choose = max if objective_higher_is_better else min
    return dict(choose(good, key=lambda each: each[objective]))


def read_cache(cachefile: str | PathLike[str], open_cache: bool = True) -> dict[str, Any]:
    """Return a cache as the JSON that it is; one of a run that was killed is read too.

    Args:
        cachefile: the file.
        open_cache: whether its brackets are left open, as Kernel Tuner does, so that a script can
            append entries that end in a comma: `close_cache` closes them.

    Returns:
        Its items. Entries that failed have their `ErrorConfig` as ``"__error__"`` too.

    Raises:
        ForeignFileError: it cannot be read, or is no cache.
    """
    held: dict[str, Any] = read_cache_file(cachefile)
    kinds = (ErrorConfig, InvalidConfig, CompilationFailedConfig, RuntimeFailedConfig)
    failures: dict[str, type[ErrorConfig]] = {each.__name__: each for each in kinds}
    for entry in held["cache"].values():
        words = [v for v in entry.values() if isinstance(v, str) and v in failures]
        if words:
            entry["__error__"] = failures[words[-1]](words[-1])
    if open_cache:
        text = Path(cachefile).read_text("utf-8").rstrip()
        closed = text.removesuffix("}").rstrip().removesuffix("}").rstrip()
        if closed != text and text.endswith("}") and _is_whole(text):
            comma = "" if closed.endswith("{") else ","
            publish(Path(cachefile), f"{closed}{comma}".encode())
    return held


def close_cache(cachefile: str | PathLike[str]) -> None:
    """Close the brackets of a cache that `read_cache` or a run that was killed left open.

    Raises:
        ForeignFileError: it cannot be read, is no cache, or ends within an entry; then the file
            stays as it is.
    """
    path = Path(cachefile)
    read_cache_file(path)
    text = path.read_text("utf-8").rstrip()
    if not _is_whole(text):
        closed = text.removesuffix(",") + "}\n}"
        if not _is_whole(closed):
            raise ForeignFileError(f"{path} ends within an entry: remove what is left of it")
        publish(path, closed.encode())


def _is_whole(text: str) -> bool:
    try:
        json.loads(text)
    except ValueError:
        return False
    return True
