"""The trials in another tuner's file, independent of its names and units."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

from autotune.measure.types import LEAST_S, MeasureErrorNo

# Most seconds that a time may be, about three centuries; what is longer marks something else.
_MOST_S = 1e10


@dataclass(frozen=True)
class Trial:
    """One configuration that another tuner tried.

    Attributes:
        choices: value of each knob.
        samples_s: seconds of one run, by each sample that the file names.
        seconds: of one run, where there are no samples; None of a failure.
        spread: of one sample relative to `seconds`, where the file tells and there are no samples.
        error_no: why it failed.
        error_msg: the failure in the words of the file.
        all_cost: seconds that it took in all.
        timestamp: seconds since the epoch when it ended; None where the file does not say.
        entry: all else that the file says of it, in the file's own names and units.
    """

    choices: Mapping[str, object]
    samples_s: tuple[float, ...] = ()
    seconds: float | None = None
    spread: float | None = None
    error_no: MeasureErrorNo = MeasureErrorNo.NO_ERROR
    error_msg: str = ""
    all_cost: float = 0.0
    timestamp: float | None = None
    entry: Mapping[str, object] = field(default_factory=dict)


@dataclass(frozen=True)
class Trials:
    """All that one file says of one kernel and problem.

    Attributes:
        tool: who wrote the file.
        name: of the kernel; empty where the file does not say.
        args: what tells the problem from others of that kernel, such as its size.
        device: name of the device; None where the file does not say.
        knobs: the values of each knob, as far as the file lists them.
        trials: in the order in which they were made.
        problems: why entries were left out, one line each.
        target: the target, where the file names one as we do.
        unit: of the times in the file.
    """

    tool: str
    name: str
    args: tuple[object, ...]
    device: str | None
    knobs: Mapping[str, Sequence[object]]
    trials: Sequence[Trial]
    problems: Sequence[str] = ()
    target: str = ""
    unit: str = "milliseconds"


T = TypeVar("T")


def read_each(
    entries: Iterable[tuple[str, T]], read: Callable[[T], Trial]
) -> tuple[list[Trial], list[str]]:
    """Read the entries of a file.

    Args:
        entries: each with its name in messages.
        read: returns the trial of an entry; raises a `ValueError` where it is none.

    Returns:
        The trials, and a line for each entry that is none.
    """
    trials, problems = [], []
    for name, entry in entries:
        try:
            trials.append(read(entry))
        except ValueError as error:
            problems.append(f"{name}: {error}")
    return trials, problems


def number(value: object) -> float | None:
    """Return a finite number as a float; None of anything else. True and false are no numbers."""
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return None
    try:
        found = float(value)
    except OverflowError:
        return None
    return found if math.isfinite(found) else None


def seconds_of(value: object, unit_s: float) -> float | None:
    """Return a time in seconds; None of what nothing can have taken."""
    found = number(value)
    if found is None:
        return None
    seconds = found * unit_s
    return seconds if LEAST_S <= seconds <= _MOST_S else None


def samples_of(values: object, unit_s: float) -> tuple[float, ...]:
    """Return samples in seconds; none where one of them is no time."""
    if not isinstance(values, list):
        return ()
    samples = [seconds_of(value, unit_s) for value in values]
    return tuple(one for one in samples if one is not None) if None not in samples else ()


def spent_s(entry: Mapping[str, object], names: Sequence[str], unit_s: float) -> float:
    """Return the sum of the times that an entry has under these names; others count nothing."""
    found = [number(entry.get(name)) for name in names]
    total = sum(one * unit_s for one in found if one is not None and one > 0)
    return total if total <= _MOST_S else 0.0


def plain(value: object) -> Any:
    """Return JSON data without infinities and NaN, which stand there as texts."""
    match value:
        case float():
            return value if math.isfinite(value) else str(value)
        case dict():
            return {str(key): plain(one) for key, one in value.items()}
        case list() | tuple():
            return [plain(one) for one in value]
        case _:
            return value
