"""Caches of Kernel Tuner: what ``tune_kernel(..., cache=...)`` writes.

One JSON object: ``device_name``, ``kernel_name``, ``problem_size``, ``tune_params_keys``,
``tune_params`` (values of each) and ``cache``, an entry for each configuration. Times are
milliseconds. While a run goes on, and after one that was killed, the closing brackets are missing;
the last line may be cut off. The form is described in Kernel Tuner's ``util.process_cache`` and
its schemas of versions 1.0.0 and 1.1.0 (github.com/KernelTuner/kernel_tuner).
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from autotune.interchange.foreign_files import (
    ForeignFileError,
    an_object,
    epoch_of,
    kind_of,
    one_line,
    parse,
    read_text,
)
from autotune.interchange.trials import (
    Trial,
    Trials,
    number,
    plain,
    read_each,
    samples_of,
    seconds_of,
    spent_s,
)
from autotune.measure.types import MeasureErrorNo
from autotune.record.paths import LogPath, log_path
from autotune.utils.check import shown

TOOL = "Kernel Tuner"
_MS = 1e-3
# What stands in place of a time.
FAILURES: Mapping[str, MeasureErrorNo] = {
    "InvalidConfig": MeasureErrorNo.INSTANTIATION_ERROR,
    "CompilationFailedConfig": MeasureErrorNo.COMPILE_DEVICE,
    "RuntimeFailedConfig": MeasureErrorNo.RUNTIME_DEVICE,
    "ErrorConfig": MeasureErrorNo.UNKNOWN_ERROR,
}
# Up to version 0.4 a failure had this time.
_FAILED_MS = 1e20
_SPENT = ("compile_time", "benchmark_time", "verification_time", "strategy_time", "framework_time")
# What is read of an entry; all else is kept as it is.
_READ = ("timestamp",)


def read_kernel_tuner(path: LogPath) -> Trials:
    """Read a cache of Kernel Tuner, finished or not.

    Raises:
        ForeignFileError: it cannot be read, or is no such cache.
    """
    where = log_path(path)
    data, problems = _parse(read_text(where), where)
    found = trials_of(data, where)
    return replace(found, problems=[*problems, *found.problems])


def read_cache_file(path: LogPath) -> dict[str, object]:
    """Return the JSON of a cache of Kernel Tuner, finished or not.

    Raises:
        ForeignFileError: it cannot be read, or is no such cache.
    """
    where = log_path(path)
    top = an_object(_parse(read_text(where), where)[0], "a cache of Kernel Tuner", where)
    an_object(top.get("cache"), "'cache'", where)
    return dict(top)


def trials_of(data: object, where: Path) -> Trials:
    """Return the trials in the JSON of a cache; see `read_kernel_tuner`."""
    top = an_object(data, "a cache of Kernel Tuner", where)
    entries = an_object(top.get("cache"), "'cache'", where)
    keys = top.get("tune_params_keys")
    if not isinstance(keys, list) or not all(isinstance(key, str) for key in keys):
        raise ForeignFileError(f"{where}: expected 'tune_params_keys' to be a list of names")
    listed = top.get("tune_params")
    listed = listed if isinstance(listed, dict) else {}
    knobs = {key: listed[key] if isinstance(listed.get(key), list) else [] for key in keys}
    named = ((f"entry {shown(name)}", entry) for name, entry in entries.items())
    trials, problems = read_each(named, lambda entry: _trial(entry, keys))
    return Trials(
        tool=TOOL,
        name=one_line(top.get("kernel_name")),
        args=problem_of(top.get("problem_size")),
        device=one_line(top.get("device_name")) if "device_name" in top else None,
        knobs=knobs,
        trials=trials,
        problems=problems,
    )


def problem_of(size: object) -> tuple[object, ...]:
    """Return the size of a problem as arguments of a task: a number, several, or a text."""
    parts = size if isinstance(size, list) else [size]
    return tuple(one for one in parts if isinstance(one, (int, float, str)))


def _trial(entry: object, keys: list[str]) -> Trial:
    if not isinstance(entry, dict):
        raise ValueError(f"expected an object, got {kind_of(entry)}")
    missing = [key for key in keys if key not in entry]
    if missing:
        raise ValueError(f"it has no value of {', '.join(map(shown, missing))}")
    rest = {key: value for key, value in entry.items() if key not in keys and key not in _READ}
    failure, words = _failure(rest)
    samples = () if failure else samples_of(rest.get("times"), _MS)
    seconds = None if failure or samples else seconds_of(rest.get("time"), _MS)
    if not failure and not samples and seconds is None:
        raise ValueError(f"'time' is no time in milliseconds: {shown(rest.get('time'))}")
    return Trial(
        choices={key: plain(entry[key]) for key in keys},
        samples_s=samples,
        seconds=seconds,
        error_no=failure,
        error_msg=words,
        all_cost=spent_s(rest, _SPENT, _MS),
        timestamp=epoch_of(entry.get("timestamp")),
        entry=plain(rest),
    )


def _failure(entry: Mapping[str, object]) -> tuple[MeasureErrorNo, str]:
    """Return why a configuration failed: an objective is a word then, or of old a huge time."""
    words = [value for value in entry.values() if isinstance(value, str) and value in FAILURES]
    if words:
        told = entry.get("__error__")
        word = told if told in words else words[0]
        return FAILURES[word], word
    time = number(entry.get("time"))
    if time is not None and time >= _FAILED_MS:
        return (
            MeasureErrorNo.UNKNOWN_ERROR,
            f"a time of {time:g} ms, as which old versions note a failure",
        )
    if isinstance(given := entry.get("time"), float) and not math.isfinite(given):
        return MeasureErrorNo.UNKNOWN_ERROR, f"a time of {given} ms, which is none"
    return MeasureErrorNo.NO_ERROR, ""


def _parse(text: str, where: Path) -> tuple[object, list[str]]:
    """Return the data of a cache, closing what a run that did not end left open."""
    try:
        return parse(text, where), []
    except ForeignFileError as error:
        refused = error
    open_text = text.rstrip().removesuffix(",")
    for ending in ("}}", "}"):
        try:
            return parse(open_text + ending, where), [
                "the run did not end; its cache was left open"
            ]
        except ForeignFileError:
            continue
    # A line is an entry: at most the last one was cut off in the middle.
    whole, newline, torn = open_text.rpartition("\n")
    if newline and '"cache"' in whole:
        try:
            said = f"the run did not end; its last {len(torn)} characters are no entry"
            return parse(whole.rstrip().removesuffix(",") + "}}", where), [said]
        except ForeignFileError:
            pass
    raise refused
