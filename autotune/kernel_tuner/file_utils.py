"""Kernel Tuner's `file_utils`: results in T4, and where they come from."""

from __future__ import annotations

import json
import platform
from collections.abc import Iterable, Mapping, Sequence
from os import PathLike
from pathlib import Path
from typing import Any

from autotune.kernel_tuner.util import ErrorConfig, InvalidConfig, RuntimeFailedConfig
from autotune.version import __version__

__all__ = ["store_metadata_file", "store_output_file"]

_OWN = ("time", "times", "timestamp", "benchmark_time", "compile_time", "error")


def store_output_file(
    output_filename: str | PathLike[str],
    results: Sequence[Mapping[str, Any]],
    tune_params: Iterable[str],
    objective: str = "time",
) -> None:
    """Write results in T4, which tools of Kernel Tuner and `autotune import` read."""
    names = list(tune_params)
    rows = [_row(each, names, objective) for each in results]
    path = Path(output_filename)
    path = path if path.suffix == ".json" else Path(f"{path}.json")
    path.write_text(
        json.dumps({"schema_version": "1.0.0", "results": rows}, default=str, indent=1)
    )


def _row(result: Mapping[str, Any], names: Sequence[str], objective: str) -> dict[str, Any]:
    time, failed = result["time"], isinstance(result["time"], ErrorConfig)
    reason = "compile"
    if isinstance(time, InvalidConfig):
        reason = "constraints"
    elif isinstance(time, RuntimeFailedConfig):
        reason = "runtime"
    more = [n for n in result if n not in (*names, *_OWN) and isinstance(result[n], int | float)]
    measured = [{"name": n, "value": result[n], "unit": ""} for n in more]
    if not failed:
        measured.insert(0, {"name": "time", "value": time, "unit": "ms"})
    return {
        "timestamp": result.get("timestamp", ""),
        "configuration": {name: result[name] for name in names if name in result},
        "objectives": [objective],
        "times": {
            "compilation_time": result.get("compile_time", 0),
            "runtimes": [] if failed else list(result.get("times", [time])),
            "framework": 0,
            "search_algorithm": 0,
            "validation": 0,
        },
        "invalidity": reason if failed else "correct",
        "correctness": int(not failed),
        "measurements": measured,
    }


def store_metadata_file(
    metadata_filename: str | PathLike[str], target: str = "json"
) -> dict[str, Any]:
    """Write on which machine results were measured, and return it."""
    del target
    about = {
        "environment": {
            "software": f"autotune {__version__}",
            "python": platform.python_version(),
        },
        "hardware": {"machine": platform.machine(), "system": platform.system()},
    }
    path = Path(metadata_filename)
    path = path if path.suffix == ".json" else Path(f"{path}.json")
    path.write_text(json.dumps({"metadata": about}, indent=1))
    return about
