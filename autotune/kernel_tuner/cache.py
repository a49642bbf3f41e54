"""Kernel Tuner's cache files: reading what was measured, and writing it again."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np

from autotune.interchange import Trial, read_kernel_tuner
from autotune.kernel_tuner.results import Result


def cache_path(cache: str | PathLike[str]) -> Path:
    """Return where a cache is: Kernel Tuner adds the ending."""
    path = Path(cache)
    return path if path.suffix == ".json" else Path(f"{path}.json")


def read_cache(path: Path, names: Sequence[str]) -> list[Trial]:
    """Return the trials of a cache whose parameters are these; none where there is no file."""
    if not path.exists():
        return []
    trials = read_kernel_tuner(path).trials
    return [each for each in trials if set(names) == set(each.choices)]


def write_cache(
    path: Path,
    kernel: str,
    size: Sequence[int],
    tune_params: Mapping[str, Sequence[object]],
    results: Sequence[Result],
) -> None:
    """Write a complete cache."""
    names = list(tune_params)
    entries = {",".join(str(each[name]) for name in names): each for each in results}
    head = {
        "device_name": "",
        "kernel_name": kernel,
        "problem_size": list(size),
        "tune_params_keys": names,
        "tune_params": {name: list(values) for name, values in tune_params.items()},
        "objective": ["time"],
        "cache": entries,
    }
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(head, default=_plain, indent=0))


def _plain(value: object) -> Any:
    return value.item() if isinstance(value, np.generic) else str(value)
