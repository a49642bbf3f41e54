"""Kernel Tuner's `integration`: the best results of several devices, as a file and as a header."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from os import PathLike
from pathlib import Path
from typing import Any

from autotune.errors import TunerError
from autotune.kernel_tuner.util import is_number
from autotune.utils.files import publish

__all__ = ["TuneResults", "create_device_targets", "get_objective_defaults", "store_results"]

_VERSION = "1.0.0"
# Part of the names of objectives of which more is better.
_HIGHER = ("/s", "/w", "flop", "bandwidth", "throughput")


def get_objective_defaults(
    objective: str | None, objective_higher_is_better: bool | None = None
) -> tuple[str, bool]:
    """Return what is compared, and whether more of it is better."""
    name = objective or "time"
    if objective_higher_is_better is None:
        return name, any(each in name.lower() for each in _HIGHER)
    return name, objective_higher_is_better


def store_results(
    results_filename: str | PathLike[str],
    kernel_name: str,
    kernel_string: object,
    tune_params: Iterable[str],
    problem_size: object,
    results: Sequence[Mapping[str, Any]],
    env: Mapping[str, Any],
    top: float = 3,
    objective: str | None = None,
    objective_higher_is_better: bool | None = None,
) -> None:
    """Add the best results of a device and problem size to a file, in place of earlier ones.

    Args:
        results_filename: the file.
        kernel_name, kernel_string, problem_size: what was tuned.
        tune_params: its parameters.
        results, env: what `tune_kernel` returned.
        top: those within so many percent of the best are kept.
        objective, objective_higher_is_better: what is compared.

    Raises:
        TunerError: no result has the objective, or the file is of another kernel.
    """
    name, higher = get_objective_defaults(objective, objective_higher_is_better)
    names = list(tune_params)
    good = [each for each in results if is_number(each.get(name))]
    if not good:
        raise TunerError(f"store_results: none of {len(results)} results has {name!r}")
    best = (max if higher else min)(each[name] for each in good)
    kept = [each for each in good if abs(each[name] - best) <= abs(best) * top / 100]
    path = Path(results_filename)
    device, size = str(env.get("device_name", "")), _size(problem_size)
    held = _read(path, kernel_name, names) if path.exists() else []
    where = {"device_name": device, "problem_size": size}
    rows = [each for each in held if {key: each.get(key) for key in where} != where]
    rows += [{**where, **{n: each[n] for n in (*names, name) if n in each}} for each in kept]
    about = {
        "version_number": _VERSION,
        "tunable_parameters": names,
        "kernel_name": kernel_name,
        "kernel_string": kernel_string if isinstance(kernel_string, str) else str(kernel_string),
        "objective": name,
        "data": rows,
    }
    publish(path, json.dumps(about, indent=1, default=_plain).encode())


class TuneResults:
    """The results of a file of `store_results`.

    Args:
        results_filename: the file.

    Raises:
        TunerError: it cannot be read, or has no results of its objective.
    """

    def __init__(self, results_filename: str | PathLike[str]) -> None:
        content = _content(Path(results_filename))
        self.objective, self._higher = get_objective_defaults(content.get("objective"))
        self._names = [str(each) for each in content["tunable_parameters"]]
        self.data = [each for each in content["data"] if is_number(each.get(self.objective))]
        if not self.data:
            raise TunerError(f"{results_filename} has no results with {self.objective!r}")

    def get_best_config(
        self, gpu_name: str = "default", problem_size: object = None
    ) -> dict[str, Any]:
        """Return the best parameters of a device for a problem size.

        Without results of that size they are those that are best over all sizes of the device,
        and without results of the device those over all devices.
        """
        device = [each for each in self.data if _macro(each["device_name"]) == _macro(gpu_name)]
        size = _size(problem_size)
        rows = [each for each in device if each.get("problem_size") == size] or device
        if rows:
            best = _common(rows, self._names, self.objective, self._higher)
        else:
            best = _over_all(self.data, self._names, self.objective, self._higher)
        return {name: best[name] for name in self._names if name in best}


def create_device_targets(
    header_filename: str | PathLike[str],
    results_filename: str | PathLike[str],
    objective: str | None = None,
    objective_higher_is_better: bool | None = None,
) -> None:
    """Write a header that defines the best parameters of each device in a file of results.

    A program is compiled with ``-DTARGET_NAME=1`` for one of them; without, it has the parameters
    that are best over all devices and problem sizes: least far from the best of each on average.

    Args:
        header_filename: where to.
        results_filename: a file of `store_results`.
        objective, objective_higher_is_better: what is compared.

    Raises:
        TunerError: the file cannot be read, or has no results of the objective.
    """
    name, higher = get_objective_defaults(objective, objective_higher_is_better)
    path = Path(results_filename)
    content = _content(path)
    names = [str(each) for each in content["tunable_parameters"]]
    rows = [each for each in content["data"] if is_number(each.get(name))]
    if not rows:
        raise TunerError(f"create_device_targets: {path} has no results with {name!r}")
    devices: dict[str, list[Mapping[str, Any]]] = {}
    for each in rows:
        devices.setdefault(str(each["device_name"]), []).append(each)
    best = {device: _common(of, names, name, higher) for device, of in devices.items()}
    lines = ["/* The best parameters of each device; written by autotune. */", "#pragma once"]
    word = "#if"
    for device, row in best.items():
        lines += [f"{word} defined(TARGET_{_macro(device)}) /* {_comment(device)} */"]
        lines += _defines(names, row)
        word = "#elif"
    shared = _over_all(rows, names, name, higher)
    lines += ["#else /* the best over all devices */", *_defines(names, shared), "#endif", ""]
    publish(Path(header_filename), "\n".join(lines).encode())


def _common(
    rows: Sequence[Mapping[str, Any]], names: Sequence[str], name: str, higher: bool
) -> Mapping[str, Any]:
    """Return the parameters that are kept for most problem sizes; of several the best in all."""
    found: dict[str, list[Mapping[str, Any]]] = {}
    for row in rows:
        found.setdefault(json.dumps([row.get(each) for each in names]), []).append(row)
    most = max(map(len, found.values()))
    choose: Callable[..., Any] = max if higher else min
    kept = [each for each in found.values() if len(each) == most]
    first: Mapping[str, Any] = choose(kept, key=lambda each: sum(r[name] for r in each))[0]
    return first


def _over_all(
    rows: Sequence[Mapping[str, Any]], names: Sequence[str], name: str, higher: bool
) -> Mapping[str, Any]:
    """Return the parameters of the greatest mean part of the best; what is not there has none."""
    choose: Callable[..., Any] = max if higher else min
    best: dict[tuple[Any, Any], float] = {}
    for row in rows:
        where = row["device_name"], row.get("problem_size")
        best[where] = choose(best.get(where, row[name]), row[name])
    parts: dict[str, float] = {}
    of: dict[str, Mapping[str, Any]] = {}
    for row in rows:
        key = json.dumps([row.get(each) for each in names])
        of.setdefault(key, row)
        least, most = sorted((row[name], best[row["device_name"], row.get("problem_size")]))
        parts[key] = parts.get(key, 0) + (least / most if most else float(least == most))
    return of[max(parts, key=lambda key: parts[key])]


def _defines(names: Iterable[str], row: Mapping[str, Any]) -> list[str]:
    """Return lines as kernels are tuned with them: booleans are 0 and 1."""
    values = ((each, row[each]) for each in names if each in row)
    return [f"#define {n} {int(v) if isinstance(v, bool) else v}" for n, v in values]


def _macro(device: str) -> str:
    return re.sub(r"\W+", "_", device).strip("_")


def _comment(device: str) -> str:
    return device.replace("*/", "")


def _content(path: Path) -> dict[str, Any]:
    try:
        content = json.loads(path.read_text("utf-8"))
    except OSError as error:
        raise TunerError(f"cannot read the results {path}: {error.strerror}") from error
    except ValueError as error:
        raise TunerError(f"{path} holds no results of store_results: {error}") from error
    expected = {"kernel_name": str, "tunable_parameters": list, "data": list}
    if (
        not isinstance(content, dict)
        or any(not isinstance(content.get(key), kind) for key, kind in expected.items())
        or any(not isinstance(each, dict) or "device_name" not in each for each in content["data"])
    ):
        raise TunerError(f"{path} holds no results of store_results: expected {list(expected)}")
    return content


def _read(path: Path, kernel: str, names: Sequence[str]) -> list[Any]:
    content = _content(path)
    if (content["kernel_name"], content["tunable_parameters"]) != (kernel, list(names)):
        raise TunerError(
            f"store_results: {path} has results of {content['kernel_name']!r} with parameters "
            f"{content['tunable_parameters']}, not of {kernel!r} with {list(names)}: name another "
            "file"
        )
    return list(content["data"])


def _size(problem_size: object) -> str:
    """Return extents as a text, such as ``"4096x4096"``."""
    if isinstance(problem_size, list | tuple):
        return "x".join(str(each) for each in problem_size)
    return str(problem_size)


def _plain(value: object) -> Any:
    return value.item() if hasattr(value, "item") else str(value)
