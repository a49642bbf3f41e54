"""Results in the format T4 of the FAIR auto-tuning community: reading them.

``{"schema_version", "metadata": {"timeunit", "device", ...}, "results": [{"configuration",
"times": {"runtimes", ...}, "invalidity", "correctness", "measurements", "objectives",
"timestamp"}]}``. The schemas: ``T4/1.0.0/results-schema.json`` in
github.com/KernelTuner/kernel_tuner, ``T4.json`` in
github.com/AutoTuningAssociation/autotuning_methodology. Without a unit times are milliseconds, as
Kernel Tuner writes them. The format names neither kernel nor problem: a T1 file
(`autotune.interchange.t1`) does.
"""

from __future__ import annotations

from collections.abc import Mapping
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

TOOL = "T4"
UNITS_S = {"nanoseconds": 1e-9, "microseconds": 1e-6, "milliseconds": 1e-3, "seconds": 1.0}
_MEASURED_S = {"ns": 1e-9, "us": 1e-6, "ms": 1e-3, "s": 1.0, **UNITS_S}
CORRECT = "correct"
# What a word of the format stands for; the first number where no measurement says which it was.
_NUMBERS_OF: Mapping[str, tuple[MeasureErrorNo, ...]] = {
    CORRECT: (MeasureErrorNo.NO_ERROR,),
    "constraints": (MeasureErrorNo.INSTANTIATION_ERROR,),
    "compile": (MeasureErrorNo.COMPILE_DEVICE, MeasureErrorNo.COMPILE_HOST),
    "runtime": (MeasureErrorNo.RUNTIME_DEVICE, MeasureErrorNo.UNKNOWN_ERROR),
    "correctness": (MeasureErrorNo.WRONG_ANSWER,),
    "timeout": (MeasureErrorNo.RUN_TIMEOUT, MeasureErrorNo.BUILD_TIMEOUT),
}
WORD_OF: Mapping[MeasureErrorNo, str] = {
    one: word for word, numbers in _NUMBERS_OF.items() for one in numbers
}
# The names of measurements of ours: which of our error numbers it was, and its words.
ERROR_NO, ERROR_MSG = "error_no", "error_msg"
# The spread of one sample relative to the time.
SPREAD = "spread"
# Both names of the schema and those that Kernel Tuner writes in their place.
_SPENT = (
    "compilation_time", "compilation", "benchmark", "framework", "search_algorithm", "validation",
    "data", "kernel_overhead", "profiling_runs", "profiling_overhead",
)  # fmt: skip


def read_t4(path: LogPath) -> Trials:
    """Read a file of results.

    Raises:
        ForeignFileError: it cannot be read, or is no such file.
    """
    where = log_path(path)
    return trials_of(parse(read_text(where), where), where)


def trials_of(data: object, where: Path) -> Trials:
    """Return the trials in the JSON of a file of results; see `read_t4`."""
    top = an_object(data, "a file of T4", where)
    results = top.get("results")
    if not isinstance(results, list):
        raise ForeignFileError(
            f"{where}: expected 'results' to be an array, got {kind_of(results)}"
        )
    about = top.get("metadata")
    about = about if isinstance(about, dict) else {}
    unit = about.get("timeunit", "milliseconds")
    if not isinstance(unit, str) or unit not in UNITS_S:
        raise ForeignFileError(
            f"{where}: expected 'timeunit' to be one of {', '.join(UNITS_S)}, got {shown(unit)}"
        )
    named = ((f"result {i}", result) for i, result in enumerate(results))
    trials, problems = read_each(named, lambda result: _trial(result, UNITS_S[unit]))
    return Trials(
        tool=one_line(about.get("autotuner")) or TOOL,
        name=one_line(about.get("kernel_name")),
        args=_arguments(about),
        device=_device(about),
        knobs={name: [] for one in trials for name in one.choices},
        trials=trials,
        problems=problems,
        target=one_line(about.get("target")),
        unit=unit,
    )


def _arguments(about: Mapping[str, object]) -> tuple[object, ...]:
    args = about.get("arguments")
    return tuple(args) if isinstance(args, list) else ()


def _device(about: Mapping[str, object]) -> str | None:
    """Return the device by the metadata, with the interface that it is used by."""
    names = [one_line(about.get("device")), one_line(about.get("compute_api"))]
    return " ".join(filter(None, names)) or None


def _trial(result: object, unit_s: float) -> Trial:
    if not isinstance(result, dict):
        raise ValueError(f"expected an object, got {kind_of(result)}")
    choices = result.get("configuration")
    if not isinstance(choices, dict) or not choices:
        raise ValueError("it has no 'configuration'")
    error_no, words = _outcome(result)
    times = result.get("times")
    times = times if isinstance(times, dict) else {}
    samples = () if error_no else samples_of(times.get("runtimes"), unit_s)
    seconds = None if error_no or samples else _measured_time(result, unit_s)
    if not error_no and not samples and seconds is None:
        raise ValueError("it is correct and has no time")
    if len(samples) == 1:  # of one, a spread that somebody measured says more
        seconds, samples = samples[0], ()
    told = {
        key: value for key, value in result.items() if key not in ("configuration", "timestamp")
    }
    return Trial(
        choices=plain(choices),
        samples_s=samples,
        seconds=seconds,
        spread=None if error_no else _share(_measurement(result, SPREAD)),
        error_no=error_no,
        error_msg=words,
        all_cost=spent_s(times, _SPENT, unit_s),
        timestamp=epoch_of(result.get("timestamp")),
        entry=plain(told),
    )


def _outcome(result: Mapping[str, object]) -> tuple[MeasureErrorNo, str]:
    """Return why a result is none, and the words that are known of it."""
    word = result.get("invalidity", CORRECT)
    if not isinstance(word, str) or word not in _NUMBERS_OF:
        raise ValueError(f"'invalidity' is none of {', '.join(_NUMBERS_OF)}: {shown(word)}")
    error_no, *others = _NUMBERS_OF[word]
    if not error_no:
        return error_no, ""
    exact = _measurement(result, ERROR_NO)
    if type(exact) is int and exact in others:
        error_no = MeasureErrorNo(exact)
    words = _measurement(result, ERROR_MSG)
    return error_no, words if isinstance(words, str) and words else word


def _share(value: object) -> float | None:
    found = number(value)
    return found if found is not None and found >= 0 else None


def _measured_time(result: Mapping[str, object], unit_s: float) -> float | None:
    for one in _measurements(result):
        if one.get("name") == "time":
            own = one.get("unit")
            known = _MEASURED_S.get(own) if isinstance(own, str) else None
            return seconds_of(one.get("value"), known or unit_s)
    return None


def _measurement(result: Mapping[str, object], name: str) -> object:
    return next(
        (one.get("value") for one in _measurements(result) if one.get("name") == name), None
    )


def _measurements(result: Mapping[str, object]) -> list[Mapping[str, object]]:
    found = result.get("measurements")
    return [one for one in found if isinstance(one, dict)] if isinstance(found, list) else []
