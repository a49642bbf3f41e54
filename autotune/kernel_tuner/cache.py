"""Kernel Tuner's cache files: reading what was measured, and adding to it."""

from __future__ import annotations

import json
import logging
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np

from autotune.errors import TunerError
from autotune.interchange import Trial, read_kernel_tuner
from autotune.kernel_tuner.results import Result, cached_result
from autotune.utils.files import publish
from autotune.utils.quantities import counted

logger = logging.getLogger("autotvm")

# Seconds between two times that a file is written while configurations are measured.
_WRITE_S = 2.0


def cache_path(cache: str | PathLike[str]) -> Path:
    """Return where a cache is: Kernel Tuner adds the ending."""
    path = Path(cache)
    return path if path.suffix == ".json" else Path(f"{path}.json")


@dataclass
class Cache:
    """The cache file of one kernel.

    What is added is written every few seconds, so that a run that is killed loses little.

    Attributes:
        path: the file.
        kernel, size: name of the kernel, and extents of its problem.
        tune_params: the values of each parameter.
        device: the name of the one that is measured; a file that is read has its own.
    """

    path: Path
    kernel: str
    size: tuple[int, ...]
    tune_params: Mapping[str, Sequence[object]]
    device: str = ""
    _entries: dict[str, Result] = field(default_factory=dict)
    _written: float = field(default_factory=time.monotonic)

    def read(self) -> list[Trial]:
        """Return the trials of the file; none where there is no file.

        Raises:
            TunerError: it is the cache of another kernel, problem or set of parameters.
        """
        if not self.path.exists():
            return []
        held = read_kernel_tuner(self.path)
        sizes = [each for each in held.args if isinstance(each, int)]
        others = {
            f"the kernel {held.name!r}, not {self.kernel!r}": held.name != self.kernel,
            f"parameters {', '.join(held.knobs)}, not {', '.join(self.tune_params)}": (
                set(held.knobs) != set(self.tune_params)
            ),
            f"problem size {sizes}, not {list(self.size)}": (
                0 < len(sizes) == len(held.args)
                and bool(self.size)
                and not _same_size(sizes, self.size)
            ),
        }
        for other, differs in others.items():
            if differs:
                raise TunerError(f"cache {self.path} has {other}: name another file")
        if held.problems:
            count = counted(len(held.problems), "problem")
            logger.warning("cache %s has %s, such as: %s", self.path, count, held.problems[0])
        self.device = self.device or held.device or ""
        for trial in held.trials:
            self._keep(cached_result(trial))
        return list(held.trials)

    def add(self, results: Sequence[Result]) -> None:
        """Add results, and write the file if that was not done for a while."""
        for each in results:
            self._keep(each)
        if time.monotonic() - self._written > _WRITE_S:
            self.write()

    def write(self) -> None:
        """Write the file, complete or not at all.

        Where that fails, on a full disk say, it is logged: results are worth more than a cache.
        """
        head = {
            "device_name": self.device,
            "kernel_name": self.kernel,
            "problem_size": list(self.size),
            "tune_params_keys": list(self.tune_params),
            "tune_params": {name: list(values) for name, values in self.tune_params.items()},
            "objective": ["time"],
            "cache": self._entries,
        }
        try:
            publish(self.path, json.dumps(head, default=_plain, indent=0).encode())
        except OSError as error:
            logger.warning("cache %s could not be written, the run goes on: %s", self.path, error)
        self._written = time.monotonic()

    def _keep(self, result: Result) -> None:
        self._entries[",".join(str(result[name]) for name in self.tune_params)] = result


def _same_size(held: Sequence[int], size: Sequence[int]) -> bool:
    """Return whether extents are equal, but for ones at the end."""
    length = max(len(held), len(size))
    return [*held, *[1] * (length - len(held))] == [*size, *[1] * (length - len(size))]


def _plain(value: object) -> Any:
    return value.item() if isinstance(value, np.generic) else str(value)
