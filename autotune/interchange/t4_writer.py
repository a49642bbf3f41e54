"""Results in the format T4: writing them; see `autotune.interchange.t4`."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime, timezone
from pathlib import Path

from autotune.errors import RecordError
from autotune.interchange.kernel_tuner import TOOL
from autotune.interchange.records import IMPORTED
from autotune.interchange.t4 import CORRECT, ERROR_MSG, ERROR_NO, SPREAD, WORD_OF
from autotune.interchange.trials import plain, samples_of
from autotune.measure.types import MeasureErrorNo, MeasureInput, MeasureResult, Pair
from autotune.record.paths import LogPath, log_path
from autotune.task import ConfigEntity, Task
from autotune.task.json_form import plain as of_numpy
from autotune.utils.check import shown
from autotune.utils.files import publish
from autotune.version import __version__

SCHEMA_VERSION = "1.0.0"
_PER_S = 1e3
_INTERFACES = {"cuda": "CUDA", "opencl": "OpenCL", "vulkan": "Vulkan"}


def to_t4(pairs: Iterable[Pair]) -> dict[str, object]:
    """Return the trials of one workload as the JSON of a T4 file, times in milliseconds.

    A result has as ``runtimes`` what its record keeps of its samples: the one or two in the
    middle. ``correctness`` is 1 where a time counts, which it does only if no check failed.

    Args:
        pairs: records of one task of a template; failures too, winners of races not.

    Raises:
        RecordError: there are none, or they are of several workloads or of no template.
    """
    records = list(pairs)
    workloads = {inp.task for inp, _ in records}
    if len(workloads) != 1:
        raise RecordError(
            f"a T4 file holds the results of one workload, got {len(workloads)}; choose one task"
        )
    task = Task.of(workloads.pop())
    return {
        "schema_version": SCHEMA_VERSION,
        "metadata": _about(task, records),
        "results": [_result(inp, result) for inp, result in records],
    }


def write_t4(pairs: Iterable[Pair], path: LogPath) -> None:
    """Write the trials of one workload to a file, whole or not at all; see `to_t4`.

    Raises:
        RecordError: see there; or the file cannot be written.
    """
    where, data = log_path(path), to_t4(pairs)
    try:
        text = json.dumps(data, indent=1, default=of_numpy, allow_nan=False)
    except (TypeError, ValueError) as error:
        raise RecordError(f"{where}: a choice has no JSON form: {error}") from error
    _write(where, text)


def _write(where: Path, text: str) -> None:
    try:
        publish(where, f"{text}\n".encode())
    except OSError as error:
        raise RecordError(f"cannot write {where}: {error.strerror}") from error


def _about(task: Task, records: Sequence[Pair]) -> dict[str, object]:
    target = records[0][0].target
    first = min(result.timestamp for _, result in records)
    about: dict[str, object] = {
        "timeunit": "milliseconds",
        "autotuner": "autotune",
        "autotuner_version": __version__,
        "timestamp": _iso(first),
        "device": str(target.attrs.get("model") or target.attrs.get("arch") or target.kind),
        "kernel_name": task.name,
        "arguments": plain(list(task.args)),
        "target": str(target),
    }
    if target.kind in _INTERFACES:
        about["compute_api"] = _INTERFACES[target.kind]
    return about


def _result(inp: MeasureInput, result: MeasureResult) -> dict[str, object]:
    number = MeasureErrorNo(result.error_no)
    word = WORD_OF[number]
    told = result.evidence.others.get(IMPORTED)
    return {
        "timestamp": _iso(result.timestamp),
        "configuration": _choices(inp),
        "objectives": ["time"],
        "times": _times(result, told if isinstance(told, dict) else {}),
        "invalidity": word,
        "correctness": int(word == CORRECT),
        "measurements": _measurements(result),
    }


def _choices(inp: MeasureInput) -> dict[str, object]:
    entities = ConfigEntity.of(inp.config).to_json_dict()["entity"]
    return {name: plain(value) for name, _, value in entities}


def _times(result: MeasureResult, told: Mapping[str, object]) -> dict[str, object]:
    """Return the times of a result; what a record of ours does not tell apart is `framework`."""
    runtimes = _samples(told) or [cost * _PER_S for cost in result.costs]
    compiled = told.get("compile_time")
    compiled = compiled if isinstance(compiled, (int, float)) else 0.0
    rest = max(0.0, result.all_cost * _PER_S - compiled)
    known = {"compilation_time": compiled} if compiled else {}
    return {**known, "runtimes": runtimes, "framework": rest}


def _samples(told: Mapping[str, object]) -> list[float]:
    """Return the samples in milliseconds that a record of Kernel Tuner's trial still has."""
    found = told.get("times")
    kept = isinstance(found, list) and told.get("from") == TOOL and samples_of(found, 1 / _PER_S)
    return list(found) if kept and isinstance(found, list) else []


def _measurements(result: MeasureResult) -> list[dict[str, object]]:
    """Return what is known of a result, in units that stand beside it."""
    if not result.ok:
        rows = [(ERROR_NO, int(result.error_no), ""), (ERROR_MSG, result.error_msg, "")]
        return [_row(*one) for one in rows if one[1] != ""]
    found = [_row("time", result.seconds * _PER_S, "ms")]
    known = result.evidence
    if known.noise_floor is not None:
        found.append(_row(SPREAD, known.noise_floor, ""))
    if known.ci95 is not None:
        found.append(_row("ci95", [one * _PER_S for one in known.ci95], "ms"))
    if known.roofline is not None:
        found.append(_row("roofline", known.roofline, ""))
    resources = known.resources or {}
    found += [_row(name, value, "") for name, value in resources.items() if value is not None]
    return found


def _row(name: str, value: object, unit: str) -> dict[str, object]:
    return {"name": str(name), "value": value, "unit": unit}


def _iso(timestamp: float) -> str:
    try:
        return datetime.fromtimestamp(timestamp, timezone.utc).isoformat(sep=" ")
    except (ValueError, OverflowError, OSError) as error:
        raise RecordError(f"a trial ended at no time of a calendar: {shown(timestamp)}") from error
