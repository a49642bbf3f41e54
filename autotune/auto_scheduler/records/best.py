"""The best record of a workload, or of one whose sizes divide the requested ones."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator

from autotune.auto_scheduler.measuring.measure_input import MeasureInput
from autotune.auto_scheduler.records.codec import RecordedPair, decode
from autotune.auto_scheduler.records.file import RecordReader
from autotune.errors import RecordError
from autotune.measure.types import MeasureResult
from autotune.record.best import beaten_by, is_race
from autotune.record.paths import LogPath, log_path
from autotune.record.reader import RACE_NOTE, open_log
from autotune.target import Target

# Name or hash of a workload, and its arguments with nested lists taken apart.
Workload = tuple[str, tuple[object, ...]]
FAR = float("inf")


def decode_workload_key(workload_key: str) -> Workload:
    """Returns name and flat arguments of a key; a key that is no JSON list is its own name."""
    try:
        parsed = json.loads(workload_key)
        if not isinstance(parsed, list) or not parsed or not isinstance(parsed[0], str):
            return workload_key, ()
        return parsed[0], tuple(_flat(parsed[1:]))
    except (ValueError, RecursionError):
        return workload_key, ()


def _flat(values: Iterable[object]) -> Iterable[object]:
    for value in values:
        if isinstance(value, list):
            yield from _flat(value)
        else:
            # What cannot be compared by its hash is compared by its text.
            yield json.dumps(value) if isinstance(value, dict) else value


def workload_distance(wanted: Workload, known: Workload) -> float:
    """Returns by how much larger a workload is than a known one whose states fit it too.

    That is 1 for the same, the product of the ratios of their ints where each wanted one is a
    multiple of the known one, and infinite where they do not fit.
    """
    if wanted[0] != known[0] or len(wanted[1]) != len(known[1]):
        return FAR
    factor = 1.0
    for want, have in zip(wanted[1], known[1], strict=True):
        if want == have:
            continue
        if type(want) is not int or type(have) is not int or not have or not want or want % have:
            return FAR
        try:
            factor *= want / have
        except OverflowError:
            return FAR
    return factor


def load_best_record(
    filename: LogPath,
    workload_key: str | None = None,
    target: str | Target | None = None,
    include_compatible: bool = False,
) -> tuple[MeasureInput, MeasureResult] | tuple[None, None]:
    """Returns the fastest record of a log, or None twice if there is none.

    The winner of a final race comes before the trials that it was raced with.

    Args:
        filename: the log.
        workload_key: of which workload; of any if None.
        target: for which kind of target; for any if None.
        include_compatible: whether records of smaller workloads count, whose sizes divide those
            of this one; their times count in proportion.

    Raises:
        LogMissingError: the log cannot be opened.
    """
    if workload_key is not None and not isinstance(workload_key, str):
        raise RecordError(f"load_best_record: workload_key is a text, got {workload_key!r}")

    def factor(inp: MeasureInput, result: MeasureResult) -> float:
        return size_factor(workload_key, inp.task.workload_key, include_compatible)

    best = best_of(filename, target, factor)
    return best if best is not None else (None, None)


def best_of(
    filename: LogPath,
    target: str | Target | None,
    factor: Callable[[MeasureInput, MeasureResult], float],
    accepts: Callable[[MeasureInput, MeasureResult], bool] | None = None,
) -> RecordedPair | None:
    """Returns the fastest record of a log, its time multiplied by a factor; None without any.

    Args:
        filename: the log.
        target: for which kind of target; for any if None.
        factor: gives the factor of a record; infinite where it does not count.
        accepts: says of records that would be the best whether they count; by default all do.
    """
    kind = None if target is None else Target(target).kind
    best: RecordedPair | None = None
    least = FAR
    beaten = _beaten(_races(filename))
    for inp, result in RecordReader(filename, races=True):
        if not result.ok or (kind is not None and inp.target.kind != kind):
            continue
        if not _counts(inp, result, beaten):
            continue
        seconds = result.seconds * factor(inp, result)
        if seconds < least and (accepts is None or accepts(inp, result)):
            best, least = (inp, result), seconds
    return best


def fair(pairs: Iterable[RecordedPair]) -> list[RecordedPair]:
    """Returns records without the trials that the winner of a final race stands above.

    The luckiest of many trials is not the fastest; a race measures again, and decides.
    """
    found = list(pairs)
    beaten = _beaten(found)
    return [pair for pair in found if _counts(*pair, beaten)]


def _beaten(pairs: Iterable[RecordedPair]) -> set[tuple[str, str]]:
    """Returns workload and state of the trials that the winners of final races stand above."""
    return {(inp.task.workload_key, key) for inp, result in pairs for key in beaten_by(result)}


def _counts(inp: MeasureInput, result: MeasureResult, beaten: set[tuple[str, str]]) -> bool:
    """Returns whether a record is of a race, or of a trial that lost none."""
    return not beaten or is_race(result) or (inp.task.workload_key, inp.key) not in beaten


def _races(filename: LogPath) -> Iterator[RecordedPair]:
    """Yields the winners of the races of a log; its trials, which are many, are not decoded."""
    with open_log(log_path(filename)) as file:
        yield from filter(None, map(_race_of, file))


def _race_of(line: str) -> RecordedPair | None:
    """Returns the winner of a race; None of any other line, and of one that is broken."""
    if not line.startswith(RACE_NOTE):
        return None
    try:
        return decode(line.removeprefix(RACE_NOTE))
    except RecordError:  # the reader of the whole log reports it
        return None


def size_factor(wanted: str | None, known: str, include_compatible: bool) -> float:
    """Returns what the time of a record is multiplied with for a workload; infinite for none."""
    if wanted is None or wanted == known:
        return 1.0
    if not include_compatible:
        return FAR
    return workload_distance(decode_workload_key(wanted), decode_workload_key(known))


# TVM 0.7's name.
load_best = load_best_record
