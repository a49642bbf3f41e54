"""The records of a log, whoever made it."""

from __future__ import annotations

from pathlib import Path

from autotune.dashboard import LineReader, name_of
from autotune.errors import RecordError
from autotune.measure.types import Pair
from autotune.record.reader import open_log

# Most characters of a reason that is shown.
_LONGEST = 200


def read_records(path: Path, task: str | None = None) -> tuple[list[Pair], str]:
    """Return the records of a log with the winners of races, and what could not be read.

    Args:
        path: of a log of templates, of graphs or of the auto-scheduler.
        task: the only task that is wanted, by the name of its template or its title.

    Raises:
        LogMissingError: it cannot be opened.
    """
    reader, pairs, wrong = LineReader(), [], []
    with open_log(path) as file:
        for number, line in enumerate(file, start=1):
            try:
                trial = reader.read(line)
            except RecordError as error:
                wrong.append(f"line {number}: {str(error)[:_LONGEST]}")
                continue
            if trial is not None and _wanted(trial.inp.task, task):
                pairs.append((trial.inp, trial.result))
    report = f"log {path}: {len(wrong)} lines could not be read ({wrong[0]})" if wrong else ""
    return pairs, report


def _wanted(of: object, task: str | None) -> bool:
    return task is None or task in (getattr(of, "name", None), name_of(of).title)  # type: ignore[arg-type]
